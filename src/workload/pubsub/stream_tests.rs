//! The account against a model that remembers every message, and its edges one by one.

use proptest::prelude::*;

use super::*;

fn after(arrivals: &[u64], sent: u64) -> Tally {
    let mut stream = Stream::default();
    for &number in arrivals {
        stream.arrive(number);
    }
    stream.end(sent);
    stream.tally()
}

#[test]
fn each_fault_is_counted_as_what_it_is() {
    let clean = Tally { received: 5, ..Tally::default() };
    assert_eq!(after(&[0, 1, 2, 3, 4], 5), clean);
    assert_eq!(after(&[0, 1, 3, 4], 5), Tally { received: 4, lost: 1, ..Tally::default() });
    assert_eq!(after(&[0, 1, 2], 5), Tally { received: 3, lost: 2, ..Tally::default() }, "the tail counts");
    assert_eq!(after(&[3, 4], 5), Tally { received: 2, lost: 3, ..Tally::default() }, "the head counts");
    assert_eq!(after(&[0, 1, 1, 2, 0, 3, 4], 5), Tally { duplicated: 2, ..clean });
    assert_eq!(after(&[0, 2, 1, 4, 3], 5), Tally { reordered: 2, ..clean });
    assert_eq!(after(&[0, 3, 1, 1, 4], 5), Tally { received: 4, lost: 1, duplicated: 1, reordered: 1, ..Tally::default() });
    assert_eq!(after(&[], 0), Tally::default());
    assert_eq!(after(&[], 7), Tally { lost: 7, ..Tally::default() });
}

#[test]
fn what_was_published_while_closed_is_not_expected_and_edges_are_not_judged() {
    let mut stream = Stream::default();
    (0..10).for_each(|number| _ = stream.arrive(number));
    // Answered before the unsubscribing: 12. Begun before it was confirmed: 15. 12 arrived in between.
    stream.arrive(12);
    stream.close(12, 15);
    // 15 to 99 were published meanwhile; begun when the subscription was confirmed again: 100.
    stream.reopen(100);
    stream.arrive(98);
    stream.arrive(99);
    stream.arrive(101);
    stream.end(103);
    let tally = stream.tally();
    assert_eq!(tally.received, 10 + 1 + 2 + 1);
    assert_eq!(tally.lost, 2 + 2, "10 and 11 before, 100 and 102 after");
    assert_eq!(tally.unjudged, 2 + 83, "13 and 14, 15 to 97");
    assert_eq!((tally.duplicated, tally.reordered), (0, 0));
}

#[test]
fn what_arrives_before_the_reopening_is_told_counts_as_after_it() {
    let mut stream = Stream::default();
    stream.arrive(0);
    stream.close(1, 1);
    // Subscribed again while 4 was begun; 5 and 7 arrive before that is told.
    stream.arrive(5);
    stream.arrive(7);
    stream.reopen(5);
    stream.end(9);
    assert_eq!(stream.tally(), Tally { received: 3, lost: 2, unjudged: 4, ..Tally::default() }, "lost: 6 and 8");
}

#[test]
fn a_subscription_whose_end_nobody_confirmed_is_judged_up_to_what_was_certain() {
    let mut stream = Stream::default();
    stream.arrive(0);
    stream.close(3, u64::MAX);
    stream.arrive(5);
    stream.close(0, 9);
    stream.cap(9);
    assert_eq!(stream.tally(), Tally { received: 2, lost: 2, unjudged: 5, ..Tally::default() }, "lost: 1, 2");
}

#[test]
fn opening_again_after_an_end_that_nobody_confirmed_invents_no_loss() {
    let mut stream = Stream::default();
    stream.arrive(0);
    stream.close(3, u64::MAX);
    stream.reopen(10);
    stream.end(12);
    assert_eq!(stream.tally(), Tally { received: 1, lost: 2 + 2, unjudged: 7, ..Tally::default() }, "lost: 1, 2, 10 and 11");
    let mut early = Stream::default();
    early.close(0, u64::MAX);
    // After a reconnection, before the reopening is told.
    early.arrive(11);
    early.arrive(13);
    early.reopen(10);
    early.arrive(14);
    early.end(16);
    assert_eq!(early.tally(), Tally { received: 3, lost: 3, unjudged: 10, ..Tally::default() }, "lost: 10, 12 and 15");
}

#[test]
fn what_was_published_after_a_confirmed_end_is_not_expected_by_the_next_end() {
    let mut stream = Stream::default();
    stream.arrive(0);
    // Ended at 2, and never confirmed to be there again.
    stream.close(1, 2);
    stream.arrive(7);
    stream.close(9, 10);
    stream.reopen(12);
    stream.end(13);
    assert_eq!(stream.tally(), Tally { received: 2, lost: 1, unjudged: 10, ..Tally::default() }, "lost: 12");
}

#[test]
fn late_messages_of_a_closed_subscription_are_still_received() {
    let mut stream = Stream::default();
    stream.arrive(0);
    stream.close(5, 6);
    (1..5).for_each(|number| _ = stream.arrive(number));
    stream.reopen(10);
    stream.end(10);
    assert_eq!(stream.tally(), Tally { received: 5, unjudged: 5, ..Tally::default() });
}

#[test]
fn a_message_without_an_answer_is_excused_whether_or_not_it_came() {
    let mut stream = Stream::default();
    [0, 1, 4].iter().for_each(|&number| _ = stream.arrive(number));
    stream.excuse(2..3);
    stream.excuse(4..5);
    stream.excuse(6..8);
    stream.end(9);
    assert_eq!(stream.tally(), Tally { received: 3, lost: 3, unjudged: 3, ..Tally::default() }, "lost: 3, 5, 8");
}

#[test]
fn memory_is_bounded_and_nothing_is_guessed_beyond_it() {
    let mut stream = Stream::default();
    let gaps = MOST_GAPS as u64 + 10;
    (0..gaps).for_each(|gap| _ = stream.arrive(gap * 2 + 1));
    assert_eq!(stream.gaps.len(), MOST_GAPS);
    assert_eq!(stream.arrive(0), Arrival::Stale, "its gap was settled as lost");
    assert_eq!(stream.arrive(gaps * 2 - 2), Arrival::New);
    stream.end(gaps * 2);
    let tally = stream.tally();
    assert_eq!(tally, Tally { received: gaps + 1, lost: gaps - 1, reordered: 1, stale: 1, ..Tally::default() });
}

/// What one transport does to a message.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    Drop,
    Twice,
    /// Held back until so many others have passed.
    Late(usize),
}

fn faults() -> impl Strategy<Value = Vec<Fault>> {
    let fault =
        prop_oneof![6 => Just(Fault::None), 2 => Just(Fault::Drop), 1 => Just(Fault::Twice), 1 => (1usize..40).prop_map(Fault::Late)];
    prop::collection::vec(fault, 0..400)
}

proptest! {
    #[test]
    fn any_mix_of_faults_is_counted_exactly(faults in faults()) {
        let mut arrivals: Vec<(usize, u64)> = Vec::new();
        let mut lost = 0;
        for (number, fault) in faults.iter().enumerate() {
            match fault {
                Fault::None => arrivals.push((number * 2, number as u64)),
                Fault::Drop => lost += 1,
                Fault::Twice => arrivals.extend([(number * 2, number as u64); 2]),
                // Odd places lie between two messages.
                Fault::Late(by) => arrivals.push(((number + by) * 2 + 1, number as u64)),
            }
        }
        arrivals.sort_by_key(|(place, _)| *place);
        // The model remembers everything.
        let mut model = Tally { lost, ..Tally::default() };
        let mut seen = std::collections::HashSet::new();
        let mut highest = None;
        let mut stream = Stream::default();
        for &(_, number) in &arrivals {
            if !seen.insert(number) {
                model.duplicated += 1;
            } else {
                model.received += 1;
                model.reordered += u64::from(highest.is_some_and(|highest| number < highest));
                highest = highest.max(Some(number));
            }
            stream.arrive(number);
        }
        stream.end(faults.len() as u64);
        prop_assert_eq!(stream.tally(), model);
        prop_assert_eq!(stream.tally().expected(), faults.len() as u64);
    }
}
