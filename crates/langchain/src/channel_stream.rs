//! A stream whose items are sent by a future that owns what it borrows from.

use std::future::{Future, ready};

use futures::{
    Stream, StreamExt as _,
    channel::mpsc::{Sender, channel},
    stream,
};

/// Returns the items that `produce` sends. The future of `produce` runs while the stream is polled,
/// at most one item ahead of the reader. Dropping the stream drops the future.
pub(crate) fn channel_stream<T, P>(produce: impl FnOnce(Sender<T>) -> P) -> impl Stream<Item = T>
where
    P: Future<Output = ()>,
{
    let (sender, receiver) = channel(0);
    let work = stream::once(produce(sender)).filter_map(|()| ready(None));
    stream::select(receiver, work)
}
