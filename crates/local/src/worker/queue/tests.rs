use futures::FutureExt as _;

use super::*;

fn queue() -> (Arc<Queue<usize>>, Receiver<usize>) {
    let queue = Arc::new(Queue::new());
    let receiver = queue.receiver();
    (queue, receiver)
}

#[test]
fn items_arrive_in_order_also_after_waiting_for_a_place() {
    let (queue, receiver) = queue();
    let tickets: Vec<_> = (0..QUEUE_CAPACITY).map(|item| queue.push(item).now_or_never().unwrap()).collect();
    let (mut first, mut second) = (Box::pin(queue.push(100)), Box::pin(queue.push(101)));
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none());

    assert_eq!(receiver.pop(), Some(0));
    assert!(second.as_mut().now_or_never().is_none(), "the first waiting caller has the place");
    let _first = first.now_or_never().unwrap();
    assert_eq!(receiver.pop(), Some(1));
    let _second = second.now_or_never().unwrap();
    let rest: Vec<_> = (0..QUEUE_CAPACITY).map(|_| receiver.pop().unwrap()).collect();
    assert_eq!(rest, (2..QUEUE_CAPACITY).chain([100, 101]).collect::<Vec<_>>());
    drop(tickets);
}

#[test]
fn dropped_item_frees_its_place() {
    let (queue, receiver) = queue();
    let mut tickets: Vec<_> =
        (0..QUEUE_CAPACITY).map(|item| queue.push(item).now_or_never().unwrap()).collect();
    let mut waiting = Box::pin(queue.push(100));
    assert!(waiting.as_mut().now_or_never().is_none());
    tickets.remove(0);
    let _waiting = waiting.now_or_never().unwrap();
    assert_eq!(receiver.pop(), Some(1));
    // The ticket of an item that was taken frees no second place.
    tickets.remove(0);
    assert_eq!(queue.places.available_permits(), 1);
}

#[test]
fn closed_queue_delivers_its_items() {
    let (queue, receiver) = queue();
    let _ticket = queue.push(1).now_or_never().unwrap();
    queue.close();
    assert!(queue.push(2).now_or_never().unwrap().is_none());
    assert_eq!((receiver.pop(), receiver.pop()), (Some(1), None));
}

#[test]
fn dropped_receiver_closes_the_queue() {
    let (queue, receiver) = queue();
    let item = Arc::new(());
    let values = Arc::new(Queue::new());
    let other = values.receiver();
    let _ticket = values.push(Arc::clone(&item)).now_or_never().unwrap();
    drop((receiver, other));
    assert!(queue.push(1).now_or_never().unwrap().is_none());
    assert_eq!(Arc::strong_count(&item), 1, "the item was not dropped");
}
