//! The capability `learning`: feedback and experiences about components, statistics of them, and refinements derived
//! from these.
//!
//! The feedback and experiences of all agents of a principal count together. Refinements change one JSON object of that
//! principal. Both are in the database. Principals see nothing of each other.

mod history;
mod proposal;
mod records;
mod statistics;

use gladhand_core::operations::{CapabilityCall, Failure};
use gladhand_core::wire::{RawValue, json};
use gladhand_hub::{Answer, Context, Features, Provider, Settling};
use rusqlite::Transaction;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use self::history::History;
use self::proposal::review;
use self::records::{Experience, Feedback, Record};
use self::statistics::Statistics;
use crate::clock::Clock;
use crate::grants::{self, Programs};
use crate::owner::Owner;
use crate::storage::{Access, LazyDatabase, Storage, StorageError};

/// Limits and thresholds, for each principal.
#[derive(Debug, Clone)]
pub struct LearningSettings {
    /// The host adapts by itself after this many experiences; 0 disables it.
    pub adapt_every: u32,
    /// Minimum number of experiences for any adaptation, and of calls of a component for a proposal about it.
    pub min_experiences: u32,
    /// A proposal with a lower confidence is not approved.
    pub confidence_threshold: f64,
    /// The scope of proposals that the host makes by itself.
    pub scope: String,
    /// Maximum number of components. Records that would add more are refused.
    pub components: u32,
    /// How many durations of a component are kept for the 95th percentile: the latest.
    pub durations: u32,
    /// Maximum number of kept records of feedback and experience: the latest.
    pub records: u32,
    /// Maximum size of all kept records together, in bytes.
    pub records_bytes: usize,
    /// Maximum size of one record or proposal, in bytes. Larger ones are refused.
    pub record_bytes: usize,
    /// Maximum number of records in one request. More are refused, because other requests wait meanwhile.
    pub request_items: usize,
    /// Maximum number of components that one experience may name.
    pub named: usize,
    /// Maximum number of proposals in one plan: for the components with the worst scores.
    pub proposals: usize,
    /// How many refinements are remembered and can be rolled back: the latest.
    pub refinements: u32,
    /// Maximum size of the state that refinements change, in bytes.
    pub state_bytes: usize,
}

impl Default for LearningSettings {
    fn default() -> Self {
        Self {
            adapt_every: 100,
            min_experiences: 32,
            confidence_threshold: 0.3,
            scope: "local".to_owned(),
            components: 10_000,
            durations: 512,
            records: 100_000,
            records_bytes: 64 * 1024 * 1024,
            record_bytes: 64 * 1024,
            request_items: 500,
            named: 64,
            proposals: 32,
            refinements: 100,
            state_bytes: 256 * 1024,
        }
    }
}

/// Provider of the capability `learning`.
#[derive(Debug)]
pub struct Learning {
    storage: Storage,
    settings: LearningSettings,
    clock: Clock,
}

impl Learning {
    /// Keeps the data in a database.
    pub fn new(storage: Storage, settings: LearningSettings) -> Self {
        Self { storage, settings, clock: Clock::default() }
    }

    /// Replaces the clock.
    pub fn by(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }
}

impl Provider for Learning {
    fn name(&self) -> &str {
        "learning"
    }

    fn features(&self) -> Features {
        Features { silent: true, ..Features::default() }
    }

    fn capabilities(&self) -> Vec<&'static str> {
        vec!["learning"]
    }

    fn open_capabilities(&self) -> Vec<&'static str> {
        grants::open("learning", Programs::None)
    }

    fn serve(&self, call: CapabilityCall<'_>, context: &Context<'_>) -> Answer {
        let work = match call.kind {
            "learn/feedback/req" => Learner::record_feedback,
            "learn/experience/req" => Learner::record_experience,
            "learn/adapt/req" => Learner::adapt,
            "learn/stats/req" => Learner::show_statistics,
            "learn/refinement/plan/req" => Learner::plan,
            "learn/refinement/review/req" => Learner::review,
            "learn/refinement/apply/req" => Learner::apply,
            "learn/refinement/rollback/req" => Learner::roll_back,
            "learn/refinement/history/req" => Learner::show_history,
            kind => {
                return Answer::Now(Err(Failure::of_capability("invalid_message", format!("{kind} is not a request"))));
            }
        };
        let access = match call.kind {
            "learn/stats/req"
            | "learn/refinement/plan/req"
            | "learn/refinement/review/req"
            | "learn/refinement/history/req" => Access::Read,
            _ => Access::Change,
        };
        let learner = Learner {
            call: call.into_owned(),
            owner: Owner::of(context),
            settings: self.settings.clone(),
            now: self.clock.now(),
        };
        self.storage.answer(access, context.terms.party, move |database| work(&learner, database))
    }

    fn closing(&self) -> Option<Settling> {
        Some(self.storage.closing())
    }
}

/// One request, with everything needed to answer it.
#[derive(Debug)]
struct Learner {
    call: CapabilityCall<'static>,
    owner: Owner,
    settings: LearningSettings,
    now: f64,
}

/// Names a component; empty for all of them.
#[derive(Debug, Deserialize)]
struct About {
    #[serde(default)]
    component_name: String,
}

/// A proposal. Only its being an object has been checked.
#[derive(Debug, Deserialize)]
struct Proposed {
    #[serde(default)]
    proposal: Map<String, Value>,
}

impl Learner {
    /// The statistics of the principal of the request.
    fn statistics<'a>(&'a self, rows: &'a Transaction<'a>) -> Statistics<'a> {
        Statistics { rows, settings: &self.settings, principal: self.owner.principal() }
    }

    /// Parses the message. An invalid message is a `parse_error`.
    fn read<T: DeserializeOwned>(&self) -> Result<T, StorageError> {
        self.call.read().map_err(|failure| StorageError::of("parse_error", failure.message))
    }

    fn record_feedback(&self, database: &LazyDatabase) -> Result<Box<RawValue>, StorageError> {
        #[derive(Deserialize)]
        struct Feedbacks {
            feedbacks: Vec<Box<RawValue>>,
        }

        let Feedbacks { feedbacks } = self.read()?;
        let records = self.parse_records::<Feedback>("feedbacks", &feedbacks)?;
        let new_score = database.change(|rows| {
            let statistics = self.statistics(rows);
            statistics.add_records("feedback", self.owner.agent(), self.now, &records)?;
            statistics
                .mean_of(records.iter().flat_map(|record| &record.samples).map(|sample| sample.component.as_str()))
        })?;
        Ok(json::to_raw(&json!({ "recorded": records.len(), "new_score": new_score })))
    }

    fn record_experience(&self, database: &LazyDatabase) -> Result<Box<RawValue>, StorageError> {
        #[derive(Deserialize)]
        struct Experiences {
            #[serde(default)]
            experiences: Vec<Box<RawValue>>,
        }

        let Experiences { experiences } = self.read()?;
        let records = self.parse_records::<Experience>("experiences", &experiences)?;
        database.change(|rows| {
            let statistics = self.statistics(rows);
            statistics.add_records("experience", self.owner.agent(), self.now, &records)?;
            let (before, after) = statistics.count_experiences(records.len())?;
            let every = u64::from(self.settings.adapt_every);
            if every > 0 && before / every < after / every {
                History { statistics, now: self.now }.adapt("")?;
            }
            Ok::<_, StorageError>(())
        })?;
        Ok(json::to_raw(&json!({ "stored": records.len() })))
    }

    /// Parses all records of one message. One invalid record fails the request.
    fn parse_records<T: DeserializeOwned + Into<Record>>(
        &self,
        member: &str,
        all: &[Box<RawValue>],
    ) -> Result<Vec<Record>, StorageError> {
        let LearningSettings { request_items, record_bytes, named, .. } = self.settings;
        if all.len() > request_items {
            return Err(StorageError::refused(format!("a request must not have more than {request_items} {member}")));
        }
        let read = |(place, written): (usize, &RawValue)| {
            let refused = |problem: String| StorageError::refused(format!("{member}.{place}: {problem}"));
            let size = written.get().len();
            if size > record_bytes {
                return Err(refused(format!("it has {size} bytes, the limit is {record_bytes}")));
            }
            let record = records::read::<T>(written, self.now);
            let record =
                record.map_err(|problem| StorageError::of("parse_error", format!("{member}.{place}: {problem}")))?;
            if record.samples.len() > named {
                return Err(refused(format!("it names {} components, the limit is {named}", record.samples.len())));
            }
            Ok(record)
        };
        all.iter().map(|written| &**written).enumerate().map(read).collect()
    }

    fn adapt(&self, database: &LazyDatabase) -> Result<Box<RawValue>, StorageError> {
        #[derive(Deserialize)]
        struct Adapt {
            #[serde(default)]
            component_name: String,
            #[serde(default)]
            strategy: Strategy,
        }

        let Adapt { component_name, strategy } = self.read()?;
        let (adapted, updated) = database.change(|rows| {
            let history = History { statistics: self.statistics(rows), now: self.now };
            let adapted = history.adapt(&component_name)?;
            Ok::<_, StorageError>((adapted, history.statistics.performances(&component_name)?))
        })?;
        let message = format!("Adapted {adapted} skills using {}", strategy.word());
        Ok(json::to_raw(&json!({ "updated": updated, "message": message })))
    }

    fn show_statistics(&self, database: &LazyDatabase) -> Result<Box<RawValue>, StorageError> {
        let About { component_name } = self.read()?;
        let components = database.read(|rows| self.statistics(rows).performances(&component_name))?;
        Ok(json::to_raw(&json!({ "components": components })))
    }

    fn plan(&self, database: &LazyDatabase) -> Result<Box<RawValue>, StorageError> {
        #[derive(Deserialize)]
        struct Plan {
            #[serde(default)]
            component_name: String,
            scope: Option<String>,
        }

        let Plan { component_name, scope } = self.read()?;
        let scope = scope.as_deref().unwrap_or("local");
        let proposals = database.read(|rows| {
            let statistics = self.statistics(rows);
            History { statistics, now: self.now }.plan(&component_name, scope)
        })?;
        let status = if proposals.is_empty() { "empty" } else { "ready" };
        Ok(json::to_raw(&json!({ "plan_id": crate::hex_id::<16>(), "proposals": proposals, "status": status })))
    }

    fn review(&self, database: &LazyDatabase) -> Result<Box<RawValue>, StorageError> {
        let Proposed { proposal } = self.read()?;
        let max = self.settings.record_bytes;
        if json::to_raw(&proposal).get().len() > max {
            return Err(StorageError::refused(format!("a proposal must not exceed {max} bytes")));
        }
        let made = database.read(|rows| {
            let statistics = self.statistics(rows);
            History { statistics, now: self.now }.edits()
        })?;
        Ok(json::to_raw(&review(&proposal, &made, self.settings.confidence_threshold)))
    }

    fn apply(&self, database: &LazyDatabase) -> Result<Box<RawValue>, StorageError> {
        let Proposed { proposal } = self.read()?;
        let applied = database.change(|rows| {
            let statistics = self.statistics(rows);
            History { statistics, now: self.now }.apply(&proposal)
        })?;
        Ok(json::to_raw(&applied))
    }

    fn roll_back(&self, database: &LazyDatabase) -> Result<Box<RawValue>, StorageError> {
        #[derive(Deserialize)]
        struct RollBack {
            #[serde(default)]
            refinement_id: String,
        }

        let RollBack { refinement_id } = self.read()?;
        let outcome = database.change(|rows| {
            let statistics = self.statistics(rows);
            History { statistics, now: self.now }.roll_back(&refinement_id)
        })?;
        let error = outcome.as_ref().err().map_or("", String::as_str);
        Ok(json::to_raw(&json!({ "refinement_id": refinement_id, "rolled_back": outcome.is_ok(), "error": error })))
    }

    fn show_history(&self, database: &LazyDatabase) -> Result<Box<RawValue>, StorageError> {
        let entries = database.read(|rows| {
            let statistics = self.statistics(rows);
            History { statistics, now: self.now }.entries()
        })?;
        Ok(json::to_raw(&json!({ "entries": entries })))
    }
}

/// The adaptation strategy that an agent names. It is echoed only: every strategy uses the same statistics.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Strategy {
    #[default]
    Ppo,
    Ucb1,
    EpsilonGreedy,
    Softmax,
    Custom,
}

impl Strategy {
    fn word(self) -> &'static str {
        match self {
            Self::Ppo => "ppo",
            Self::Ucb1 => "ucb1",
            Self::EpsilonGreedy => "epsilon_greedy",
            Self::Softmax => "softmax",
            Self::Custom => "custom",
        }
    }
}
