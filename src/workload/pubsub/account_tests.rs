//! Accounts over a scripted transport that drops, duplicates, reorders and corrupts.

use proptest::prelude::*;

use super::super::message::{HEADER, Kind, template, write};
use super::*;

const RUN: u64 = 77;

fn names(first: u32, count: u32) -> Vec<Vec<u8>> {
    (first..first + count).map(|channel| format!("rcb:channel-{channel}").into_bytes()).collect()
}

fn message(publisher: u32, channel: u32, sequence: u64) -> (Vec<u8>, Vec<u8>) {
    message_of(RUN, Kind::Message, publisher, channel, sequence)
}

fn message_of(run: u64, kind: Kind, publisher: u32, channel: u32, sequence: u64) -> (Vec<u8>, Vec<u8>) {
    let mut payload = template(HEADER + 16);
    write(&mut payload, &Header { kind, run, publisher, channel, sequence, sent_ns: 5, clock: clock_id() });
    (format!("rcb:channel-{channel}").into_bytes(), payload)
}

#[test]
fn runs_have_numbers_of_their_own() {
    let runs: std::collections::HashSet<u64> = (0..1_000).map(|_| fresh_run()).collect();
    assert!(runs.len() == 1_000 && !runs.contains(&0));
}

#[test]
fn publishers_share_the_channels_evenly_and_every_channel_has_one() {
    assert_eq!(publishers_of(5, 10, 3), [2]);
    assert_eq!(publishers_of(1, 2, 5), [1, 3]);
    assert_eq!(publishers_of(0, 4, 0), [0; 0]);
    for (channels, publishers) in [(1, 1), (10, 3), (3, 10), (7, 7)] {
        let mut served: Vec<u32> = (0..channels).flat_map(|channel| publishers_of(channel, channels, publishers)).collect();
        served.sort_unstable();
        served.dedup();
        assert_eq!(served, (0..publishers).collect::<Vec<_>>(), "{channels} {publishers}");
    }
}

#[test]
fn streams_of_channels_and_publishers_are_told_apart() {
    // Two channels, five publishers: 0, 2, 4 on channel 0 and 1, 3 on channel 1.
    let mut account = Account::new(RunId::new(RUN), 0, &names(0, 2), 2, 5);
    for (publisher, channel, sequence) in [(0, 0, 0), (2, 0, 0), (4, 0, 1), (1, 1, 0), (3, 1, 0), (3, 1, 0)] {
        let (name, payload) = message(publisher, channel, sequence);
        let received = account.arrive(&name, &payload);
        assert!(received.is_none_or(|received| received.sent_ns == Some(5)));
    }
    account.settle(|_, publisher| (if publisher == 4 { 2 } else { 1 }, Vec::new()));
    assert_eq!(account.tally_of(0), Tally { received: 3, lost: 1, ..Tally::default() });
    assert_eq!(account.tally_of(1), Tally { received: 2, duplicated: 1, ..Tally::default() });
    assert_eq!(account.tally().expected(), 6);
}

#[test]
fn foreign_corrupt_and_misrouted_messages_are_no_messages_of_a_stream() {
    let mut account = Account::new(RunId::new(RUN), 3, &names(3, 2), 10, 1);
    let (name, payload) = message(0, 3, 0);
    let mut damaged = payload.clone();
    damaged[HEADER + 3] ^= 1;
    assert_eq!(account.arrive(&name, &damaged), None);
    let (_, other_run) = message_of(RUN + 1, Kind::Message, 0, 3, 0);
    assert_eq!(account.arrive(&name, &other_run), None);
    assert_eq!(account.arrive(&name, b"hello"), None);
    assert_eq!(account.arrive(b"rcb:channel-4", &payload), None, "sent to channel 3");
    let (elsewhere, not_subscribed) = message(0, 9, 0);
    assert_eq!(account.arrive(&elsewhere, &not_subscribed), None);
    account.lagged(4);
    account.settle(|_, _| (1, Vec::new()));
    assert_eq!(account.strays(), Strays { corrupt: 3, foreign: 2, lagged: 4 });
    assert_eq!(account.tally(), Tally { lost: 2, ..Tally::default() });
}

#[test]
fn another_process_publishers_are_counted_from_their_first_message_to_their_stated_end() {
    let mut account = Account::new(RunId::open(), 0, &names(0, 1), 1, 0);
    for sequence in [10, 11, 14] {
        let (name, payload) = message(1 << 20, 0, sequence);
        account.arrive(&name, &payload);
    }
    let (name, stranger) = message_of(5, Kind::Message, 0, 0, 0);
    account.arrive(&name, &stranger);
    account.settle(|_, _| unreachable!("its publishers are elsewhere"));
    assert_eq!(account.tally(), Tally { received: 3, lost: 2, ..Tally::default() }, "only gaps can be seen");
    assert!(!account.has_ended());
    let (name, end) = message_of(RUN, Kind::End, 1 << 20, 0, 20);
    account.arrive(&name, &end);
    assert!(account.has_ended());
    account.settle(|_, _| unreachable!("its publishers are elsewhere"));
    assert_eq!(account.tally(), Tally { received: 3, lost: 7, ..Tally::default() });
    assert_eq!(account.strays().foreign, 1, "the first run that came is the one");
}

#[test]
fn of_a_publisher_elsewhere_whose_end_alone_came_everything_is_lost() {
    let mut account = Account::new(RunId::new(RUN), 0, &names(0, 1), 1, 0);
    let (name, end) = message_of(RUN, Kind::End, 3, 0, 20);
    account.arrive(&name, &end);
    account.lagged(20);
    account.settle(|_, _| unreachable!("its publishers are elsewhere"));
    assert_eq!(account.tally(), Tally { lost: 20, ..Tally::default() });
}

/// What the transport does to one delivery.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    Drop,
    Twice,
    Swap,
    Corrupt(usize, u8),
    Foreign,
}

fn faults() -> impl Strategy<Value = Vec<(u32, u32, Fault)>> {
    let fault = prop_oneof![
        8 => Just(Fault::None),
        1 => Just(Fault::Drop),
        1 => Just(Fault::Twice),
        1 => Just(Fault::Swap),
        1 => (0usize..HEADER + 16, 1u8..=255).prop_map(|(at, flip)| Fault::Corrupt(at, flip)),
        1 => Just(Fault::Foreign),
    ];
    // Three channels; two publishers on the first, one on each of the others.
    prop::collection::vec((0u32..3, 0u32..2, fault), 0..300)
}

proptest! {
    #[test]
    fn a_transport_with_every_fault_is_accounted_exactly(script in faults()) {
        let mut sent = std::collections::HashMap::<(u32, u32), u64>::new();
        let mut deliveries: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut wanted = Tally::default();
        let mut strays = Strays::default();
        let mut swap: Vec<(usize, (u32, u32))> = Vec::new();
        let mut plain: Vec<Option<(u32, u32)>> = Vec::new();
        for &(channel, pick, fault) in &script {
            let publishers = publishers_of(channel, 3, 4);
            let publisher = publishers[pick as usize % publishers.len()];
            let count = sent.entry((channel, publisher)).or_default();
            let (name, mut payload) = message(publisher, channel, *count);
            *count += 1;
            match fault {
                Fault::Drop => wanted.lost += 1,
                Fault::Corrupt(at, flip) => {
                    payload[at] ^= flip;
                    strays.corrupt += 1;
                    wanted.lost += 1;
                    deliveries.push((name, payload));
                    plain.push(None);
                }
                Fault::None | Fault::Swap => {
                    wanted.received += 1;
                    if matches!(fault, Fault::Swap) {
                        swap.push((deliveries.len(), (channel, publisher)));
                    }
                    deliveries.push((name, payload));
                    plain.push(Some((channel, publisher)));
                }
                Fault::Twice => {
                    wanted.received += 1;
                    wanted.duplicated += 1;
                    deliveries.extend([(name.clone(), payload.clone()), (name, payload)]);
                    plain.extend([None, None]);
                }
                Fault::Foreign => {
                    // Instead of the message comes another run's.
                    let (name, other) = message_of(RUN + 9, Kind::Message, publisher, channel, 0);
                    strays.foreign += 1;
                    wanted.lost += 1;
                    deliveries.push((name, other));
                    plain.push(None);
                }
            }
        }
        // A swap passes its message by the next delivery; only within a stream is that another order.
        let mut at = 0;
        for (place, stream) in swap {
            if place < at || place + 1 >= deliveries.len() {
                continue;
            }
            deliveries.swap(place, place + 1);
            if plain[place + 1] == Some(stream) {
                wanted.reordered += 1;
            } else if plain[place + 1].is_none() && matches!(message::read(&deliveries[place].1, RUN), Seen::Ours(header) if (header.channel, header.publisher) == stream) {
                // Passed by the first of two equal ones.
                wanted.reordered += 1;
            }
            plain.swap(place, place + 1);
            at = place + 2;
        }
        let mut account = Account::new(RunId::new(RUN), 0, &names(0, 3), 3, 4);
        for (name, payload) in &deliveries {
            account.arrive(name, payload);
        }
        account.settle(|channel, publisher| (sent.get(&(channel, publisher)).copied().unwrap_or(0), Vec::new()));
        prop_assert_eq!(account.tally(), wanted);
        prop_assert_eq!(account.strays(), strays);
        prop_assert_eq!(account.tally().expected(), script.len() as u64);
    }
}
