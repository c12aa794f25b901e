//! A stream of the items of a future, with the data that the future borrows.

use std::future::{Future, ready};

use futures::{
    Stream, StreamExt as _,
    channel::mpsc::{Sender, channel},
    stream,
};

/// Returns the items sent by `produce`. The future of `produce` runs while the stream is polled,
/// at most one item ahead of the reader. Dropping the stream drops the future.
pub(crate) fn channel_stream<T, P>(produce: impl FnOnce(Sender<T>) -> P) -> impl Stream<Item = T>
where
    P: Future<Output = ()>,
{
    let (sender, receiver) = channel(0);
    let work = stream::once(produce(sender)).filter_map(|()| ready(None));
    stream::select(receiver, work)
}
