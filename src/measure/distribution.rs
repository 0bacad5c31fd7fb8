//! A whole latency distribution in a form that is kept in files.

use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use super::Latency;

/// A latency distribution: its figures, and all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// `None` when there was nothing.
    pub latency: Option<Latency>,
    /// The HdrHistogram, V2 compressed and in Base64, as HdrHistogram's tools read it. Nanoseconds.
    pub hdr: Option<String>,
}

impl Distribution {
    /// Of a histogram.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let latency = Latency::of(histogram);
        let hdr = latency.and_then(|_| {
            let mut bytes = Vec::new();
            V2DeflateSerializer::new().serialize(histogram, &mut bytes).ok()?;
            Some(base64::engine::general_purpose::STANDARD.encode(bytes))
        });
        Self { latency, hdr }
    }

    /// The histogram again; `None` when there was nothing, or it can't be read.
    #[must_use]
    pub fn histogram(&self) -> Option<Histogram<u64>> {
        let bytes = base64::engine::general_purpose::STANDARD.decode(self.hdr.as_ref()?).ok()?;
        hdrhistogram::serialization::Deserializer::new().deserialize(&mut &bytes[..]).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::latency::histogram;

    #[test]
    fn a_distribution_comes_back_whole_from_its_text() {
        let mut values = histogram();
        (1..=10_000u64).for_each(|value| values.saturating_record(value * 997));
        let text = serde_json::to_string(&Distribution::of(&values)).unwrap();
        let back: Distribution = serde_json::from_str(&text).unwrap();
        assert_eq!(back.histogram().unwrap(), values);
        assert_eq!(back.latency, Latency::of(&values));
        assert_eq!(Distribution::of(&histogram()), Distribution::default());
    }
}
