use std::{
    sync::{Arc, Mutex},
    task::Context,
};

use futures::{
    channel::oneshot,
    future::{BoxFuture, FutureExt as _, poll_fn},
    task::noop_waker_ref,
};

use super::Woken;

/// How often a future is polled.
fn counted<'f, T: 'f>(
    future: impl Future<Output = T> + Send + 'f,
    polls: &Arc<Mutex<u32>>,
) -> BoxFuture<'f, T> {
    let (mut future, polls) = (Box::pin(future), Arc::clone(polls));
    poll_fn(move |cx| {
        *polls.lock().unwrap() += 1;
        future.poll_unpin(cx)
    })
    .boxed()
}

#[test]
fn it_is_polled_when_something_woke_it() {
    let polls = Arc::default();
    let (end, ended) = oneshot::channel();
    let mut woken = Woken::new(counted(ended, &polls));
    let cx = Context::from_waker(noop_waker_ref());
    for _ in 0..3 {
        assert!(woken.poll(&cx).is_pending());
    }
    assert_eq!(*polls.lock().unwrap(), 1);
    end.send(7).unwrap();
    assert!(woken.poll(&cx).is_ready());
    assert_eq!(*polls.lock().unwrap(), 2);
    assert!(woken.poll(&cx).is_pending(), "it is over");
}

/// Whoever polled last is woken.
#[tokio::test]
async fn it_may_move_to_another_task() {
    let (end, ended) = oneshot::channel();
    let mut woken = Woken::new(ended.boxed());
    assert!(woken.poll(&Context::from_waker(noop_waker_ref())).is_pending());
    let waiting = tokio::spawn(async move { poll_fn(|cx| woken.poll(cx)).await });
    tokio::task::yield_now().await;
    end.send(7).unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(7));
}
