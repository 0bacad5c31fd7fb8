//! RESP2 or RESP3.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Version of the Redis serialization protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Resp {
    /// RESP2, every server's default.
    #[default]
    V2,
    /// RESP3, from Redis 6.0 on.
    V3,
}

impl TryFrom<u8> for Resp {
    type Error = String;
    fn try_from(version: u8) -> Result<Self, String> {
        match version {
            2 => Ok(Resp::V2),
            3 => Ok(Resp::V3),
            other => Err(format!("RESP version {other} does not exist; use 2 or 3")),
        }
    }
}

impl From<Resp> for u8 {
    fn from(resp: Resp) -> u8 {
        match resp {
            Resp::V2 => 2,
            Resp::V3 => 3,
        }
    }
}

impl FromStr for Resp {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        text.parse::<u8>().map_err(|_| format!("{text:?} is not a RESP version; use 2 or 3"))?.try_into()
    }
}
