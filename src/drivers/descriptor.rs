//! What a driver says of itself, before anything is connected.

use super::{CacheSupport, Error, PubSub, Resp, ResponseTimeout, Settings, Topology};

/// What one explicit pipeline may hold on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineReach {
    /// Any keys; the client splits by node.
    AnySlot,
    /// Keys of one slot only.
    OneSlot,
}

/// What a client really takes of the settings that `tuned` equalises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Whether TCP_NODELAY is set; `None` = the crate's default.
    pub nodelay: Option<bool>,
    /// The response timeout.
    pub response_timeout: ResponseTimeout,
}

impl Applied {
    /// Everything as asked.
    #[must_use]
    pub fn as_asked(settings: &Settings, _: Topology) -> Self {
        Self { nodelay: settings.nodelay(), response_timeout: settings.timeout() }
    }
}

/// A driver's statement about its client, its connections and its habits.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Name, as configuration and results use it.
    pub name: &'static str,
    /// The client crate, as the registry knows it.
    pub client: &'static str,
    /// One line: what kind of connection.
    pub summary: &'static str,
    /// The client's documentation that the driver follows.
    pub documentation: &'static str,
    /// Where it can run with [`super::Strategy::Native`].
    pub topologies: &'static [Topology],
    /// Protocol versions.
    pub resp: &'static [Resp],
    /// Connections it opens with [`super::Strategy::Native`]: to a standalone server, or to each master of a cluster.
    pub connections: fn(&Settings, Topology) -> usize,
    /// Most connections that can be asked for.
    pub most_connections: usize,
    /// Commands that a checkout sends beside the user's own, lower case. The audit counts them apart.
    pub checkout: &'static [&'static str],
    /// Whether it can say which connection it uses, as a window per connection needs.
    pub tells_connections: bool,
    /// Settings that it takes from those asked for; the record states these.
    pub applied: fn(&Settings, Topology) -> Applied,
    /// Reach of an explicit pipeline on a cluster.
    pub pipeline_reach: PipelineReach,
    /// Whether a command that fails inside of a transaction is told by itself, or as the failure of the whole.
    pub tells_transaction_errors: bool,
    /// What it can subscribe to. Publishing every driver can.
    pub pubsub: PubSub,
    /// What it can cache on its own side.
    pub cache: CacheSupport,
    /// What the profile `tuned` can't equalise, and anything else a reader of its figures must know.
    pub notes: &'static [&'static str],
}

impl Descriptor {
    /// The client's exact version, read from the lock file that this build was made with.
    #[must_use]
    pub fn version(&self) -> &'static str {
        crate::versions::of(self.client)
    }

    /// `redis 1.8.1`.
    #[must_use]
    pub fn client_version(&self) -> String {
        format!("{} {}", self.client, self.version())
    }

    /// Whether the driver itself, without our routing, runs on `topology`.
    #[must_use]
    pub fn runs_on(&self, topology: Topology) -> bool {
        self.topologies.contains(&topology)
    }

    /// Whether the client speaks `resp`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with what it speaks instead.
    pub fn check_resp(&self, resp: Resp) -> Result<(), Error> {
        match resp {
            _ if self.resp.contains(&resp) => Ok(()),
            Resp::V2 => Err(Error::Unsupported("this client speaks RESP3 only")),
            Resp::V3 => Err(Error::Unsupported("this client speaks RESP2 only")),
        }
    }

    /// The protocol version where nobody asks for one: that of [`Settings::default`], or else the only one that the client speaks.
    #[must_use]
    pub fn usual_resp(&self) -> Resp {
        let usual = Settings::default().resp;
        if self.resp.contains(&usual) { usual } else { self.resp.first().copied().unwrap_or(usual) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::DRIVERS;

    #[test]
    fn the_usual_version_is_one_that_the_client_speaks() {
        for driver in DRIVERS {
            driver.check_resp(driver.usual_resp()).unwrap();
            for resp in [Resp::V2, Resp::V3] {
                assert_eq!(driver.check_resp(resp).is_ok(), driver.resp.contains(&resp), "{}", driver.name);
            }
        }
        let new = Descriptor { resp: &[Resp::V3], ..DRIVERS[0] };
        assert_eq!((DRIVERS[0].usual_resp(), new.usual_resp()), (Resp::V2, Resp::V3));
        assert_eq!(new.check_resp(Resp::V2).unwrap_err().to_string(), "unsupported: this client speaks RESP3 only");
    }
}
