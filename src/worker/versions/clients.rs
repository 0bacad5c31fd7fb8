//! The clients of which other versions can be built, and what each release is built with.

/// Major, minor and patch of a release; a pre-release counts as its release.
pub type Release = (u64, u64, u64);

/// A client crate.
#[derive(Debug)]
pub struct Client {
    /// As the registry knows it.
    pub name: &'static str,
    /// The feature of this crate that brings its drivers.
    pub feature: &'static str,
    /// Its drivers, the usual one first.
    pub drivers: &'static [&'static str],
    /// The oldest release that the drivers fit.
    first: Release,
    /// Features, each with the first release that has it.
    features: &'static [(Release, &'static str)],
    /// The same of TLS.
    tls: &'static [&'static str],
    /// The feature that turns TCP_NODELAY on, and the first release that has a setting instead.
    pub nodelay: Option<(&'static str, Release)>,
    /// Crates that our driver of this client names beside it.
    pub companions: &'static [Companion],
}

/// A crate that a driver names beside its client.
#[derive(Debug)]
pub struct Companion {
    /// As the registry knows it.
    pub name: &'static str,
    /// What it must be, when this build does not say which one it has.
    pub requirement: &'static str,
    /// Its features.
    pub features: &'static [&'static str],
    /// Taken at the version of this build, so that two versions of the client run on the same one.
    pub pinned: bool,
}

const REDIS: &[&str] = &["tokio-comp", "cluster-async", "connection-manager", "cache-aio"];
const REDIS_1: Companion = Companion { name: "redis", requirement: "1", features: REDIS, pinned: true };
const ALWAYS: Release = (0, 0, 0);

const CLIENTS: &[Client] = &[
    Client {
        name: "redis",
        feature: "redis-rs",
        drivers: &["redis-rs", "redis-rs-pool", "redis-rs-manager", "redis-rs-cluster"],
        first: (0, 25, 0),
        features: &[(ALWAYS, "tokio-comp"), (ALWAYS, "cluster-async"), (ALWAYS, "connection-manager"), ((0, 29, 0), "cache-aio")],
        tls: &["tokio-rustls-comp", "tls-rustls-insecure"],
        nodelay: Some(("tcp_nodelay", (0, 29, 1))),
        companions: &[],
    },
    Client {
        name: "fred",
        feature: "fred",
        drivers: &["fred", "fred-pool"],
        first: (9, 0, 0),
        features: &[
            (ALWAYS, "i-keys"),
            (ALWAYS, "i-hashes"),
            (ALWAYS, "i-tracking"),
            (ALWAYS, "subscriber-client"),
            (ALWAYS, "transactions"),
            (ALWAYS, "unix-sockets"),
        ],
        tls: &["enable-rustls-ring"],
        nodelay: None,
        companions: &[],
    },
    Client {
        name: "deadpool-redis",
        feature: "deadpool-redis",
        drivers: &["deadpool-redis"],
        first: (0, 23, 0),
        features: &[(ALWAYS, "rt_tokio_1"), (ALWAYS, "cluster")],
        tls: &[],
        nodelay: None,
        companions: &[REDIS_1],
    },
    Client {
        name: "bb8-redis",
        feature: "bb8-redis",
        drivers: &["bb8-redis"],
        first: (0, 25, 0),
        features: &[],
        tls: &[],
        nodelay: None,
        companions: &[REDIS_1],
    },
    Client {
        name: "rustis",
        feature: "rustis",
        drivers: &["rustis", "rustis-pool"],
        first: (0, 19, 0),
        features: &[(ALWAYS, "tokio-runtime"), (ALWAYS, "client-cache"), (ALWAYS, "pool")],
        tls: &[],
        nodelay: None,
        companions: &[Companion { name: "moka", requirement: "0.12", features: &["future"], pinned: false }],
    },
];

/// The client called `name`, or whose driver is, with that driver.
pub fn client_of(name: &str) -> Option<(&'static Client, &'static str)> {
    let driver = |client: &'static Client| client.drivers.iter().copied().find(|driver| *driver == name);
    let by_name = CLIENTS.iter().find(|client| client.name == name).map(|client| (client, client.drivers[0]));
    by_name.or_else(|| CLIENTS.iter().find_map(|client| driver(client).map(|driver| (client, driver))))
}

/// Their names.
pub fn names() -> String {
    CLIENTS.iter().map(|client| client.name).collect::<Vec<_>>().join(", ")
}

/// The numbers of an exact version: `major.minor.patch`, and maybe more after a `-` or `+`.
pub fn release(version: &str) -> Option<Release> {
    let plain = version.split(['-', '+']).next()?;
    let mut parts = plain.split('.').map(|part| part.parse::<u64>().ok());
    let release = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(release)
}

impl Client {
    /// Why `release` can't be built; `None` when it can be tried.
    pub fn refuses(&self, release: Release) -> Option<String> {
        let (major, minor, patch) = self.first;
        (release < self.first).then(|| format!("the drivers fit {} from {major}.{minor}.{patch} on", self.name))
    }

    /// The features that `release` is built with; the newest has all of them.
    pub fn features(&self, release: Option<Release>, tls: bool) -> Vec<&'static str> {
        let has = |since: &Release| release.is_none_or(|release| *since <= release);
        let tls = if tls { self.tls } else { &[] };
        self.features.iter().filter(|(since, _)| has(since)).map(|(_, name)| *name).chain(tls.iter().copied()).collect()
    }

    /// The feature that turns TCP_NODELAY on, in a release that has no setting for it.
    pub fn nodelay_feature(&self, release: Option<Release>) -> Option<&'static str> {
        self.nodelay.filter(|(_, setting)| release.is_some_and(|release| release < *setting)).map(|(feature, _)| feature)
    }
}
