//! The channels of a run, their names, and which subscriber has which of them.

use crate::drivers::Kind;
use crate::workload::commands::PREFIX;

/// Numbered channels under one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channels {
    /// What their names begin with.
    pub prefix: String,
    /// The first number.
    pub minimum: u32,
    /// The last number, not below the first.
    pub maximum: u32,
}

/// The prefix of channels unless another is asked for.
#[must_use]
pub fn usual_prefix() -> String {
    format!("{PREFIX}channel-")
}

impl Channels {
    /// How many.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.maximum.saturating_sub(self.minimum).saturating_add(1)
    }

    /// The name of the `index`-th channel, counted from 0.
    #[must_use]
    pub fn name(&self, index: u32) -> Vec<u8> {
        format!("{}{}", self.prefix, self.minimum + index).into_bytes()
    }

    /// What subscribes to the `index`-th channel: its name, or a pattern with a real wildcard that matches it alone.
    #[must_use]
    pub fn subscription(&self, index: u32, kind: Kind) -> Vec<u8> {
        let name = self.name(index);
        if kind != Kind::Pattern {
            return name;
        }
        let mut pattern = Vec::with_capacity(name.len() + 2);
        let (last, before) = name.split_last().unwrap_or((&b'0', &[]));
        for byte in before {
            if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b'^') {
                pattern.push(b'\\');
            }
            pattern.push(*byte);
        }
        // The last byte is a digit.
        pattern.extend([b'[', *last, b']']);
        pattern
    }
}

/// The channels of one subscriber: consecutive ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The first channel, counted from 0.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// One seat for each subscriber: `per_channel` subscriptions for every channel, up to `per_subscriber` channels to a subscriber.
#[must_use]
pub fn seats(channels: u32, per_channel: u32, per_subscriber: u32) -> Vec<Seat> {
    let per_subscriber = per_subscriber.max(1);
    let once = (0..channels).step_by(per_subscriber as usize).map(|first| Seat { first, count: per_subscriber.min(channels - first) });
    let once: Vec<Seat> = once.collect();
    (0..per_channel).flat_map(|_| once.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_channel_has_its_subscribers_whatever_the_grouping() {
        for (channels, per_channel, per_subscriber) in [(100, 9, 1), (100, 9, 7), (10, 2, 100), (1, 1, 1)] {
            let seats = seats(channels, per_channel, per_subscriber);
            let mut counts = vec![0; channels as usize];
            for seat in &seats {
                (seat.first..seat.first + seat.count).for_each(|channel| counts[channel as usize] += 1);
            }
            assert!(counts.iter().all(|&count| count == per_channel), "{channels} {per_channel} {per_subscriber}");
        }
        assert_eq!(seats(100, 9, 1).len(), 900);
    }

    #[test]
    fn a_pattern_has_a_wildcard_and_only_the_prefix_is_escaped() {
        let channels = Channels { prefix: "a*[b]-".into(), minimum: 9, maximum: 10 };
        assert_eq!(channels.count(), 2);
        assert_eq!(channels.name(1), b"a*[b]-10");
        assert_eq!(channels.subscription(1, Kind::Pattern), br"a\*\[b\]-1[0]");
        assert_eq!(channels.subscription(0, Kind::Sharded), b"a*[b]-9");
    }
}
