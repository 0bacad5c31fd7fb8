//! The record of `rcb cache`: what came of each scenario with each client. `docs/FORMAT.md` describes the file.

use serde::{Deserialize, Serialize};

use super::timestamp;
use crate::drivers::{Descriptor, Profile};
use crate::measure::Environment;
use crate::scenarios::{Played, Scenario, Verdict, Way};
use crate::target::TargetFacts;

/// Marks a file as a record of scenarios.
pub const SCENARIOS_FORMAT: &str = "redis-client-bench/cache-scenarios";
/// Version of the format.
pub const SCENARIOS_VERSION: u32 = 1;

/// All scenarios of one invocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenariosRecord {
    /// [`SCENARIOS_FORMAT`].
    pub format: String,
    /// [`SCENARIOS_VERSION`].
    pub version: u32,
    /// Start, RFC 3339 in UTC.
    pub created: String,
    /// The machine, the build and how busy it was.
    pub environment: Environment,
    /// What they were played on.
    pub target: TargetFacts,
    /// What a reader must know about all of it.
    pub warnings: Vec<String>,
    /// The clients' knobs.
    pub profile: Profile,
    /// False when it was interrupted.
    pub complete: bool,
    /// The scenarios in the order in which they were played.
    pub rows: Vec<ScenarioRow>,
}

/// One scenario with one client in one mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioRow {
    /// The driver.
    pub driver: String,
    /// Its client crate.
    pub client: String,
    /// The client's exact version.
    pub client_version: String,
    /// Whose tracking and whose cache it is.
    pub cache: String,
    /// What happened.
    pub scenario: Scenario,
    /// The mode.
    #[serde(flatten)]
    pub way: Way,
    /// What came of it.
    #[serde(flatten)]
    pub played: Played,
}

impl ScenarioRow {
    /// A row of `driver`.
    #[must_use]
    pub fn new(driver: &Descriptor, scenario: Scenario, way: Way, played: Played) -> Self {
        Self {
            driver: driver.name.to_owned(),
            client: driver.client.to_owned(),
            client_version: driver.version().to_owned(),
            cache: driver.cache.way.to_owned(),
            scenario,
            way,
            played,
        }
    }
}

impl ScenariosRecord {
    /// An empty record of now.
    #[must_use]
    pub fn new(environment: Environment, target: TargetFacts, warnings: Vec<String>, profile: Profile) -> Self {
        Self {
            format: SCENARIOS_FORMAT.to_owned(),
            version: SCENARIOS_VERSION,
            created: timestamp(std::time::SystemTime::now()),
            environment,
            target,
            warnings,
            profile,
            complete: false,
            rows: Vec::new(),
        }
    }

    /// Rows in which something was not forgotten, and rows that failed.
    #[must_use]
    pub fn stale_and_failed(&self) -> (usize, usize) {
        let count = |wanted: fn(&Verdict) -> bool| self.rows.iter().filter(|row| wanted(&row.played.verdict)).count();
        // A row that failed may have been stale before.
        let stale = self.rows.iter().filter(|row| row.played.account.is_stale()).count();
        (stale, count(|verdict| matches!(verdict, Verdict::Failed { .. })))
    }
}
