//! The capability `learning`: feedback and experiences about components, statistics of them, and refinements derived
//! from these.
//!
//! The feedback and experiences of all agents of a principal count together. Refinements change one JSON object of that
//! principal. Both are in the database. Principals see nothing of each other.

mod history;
mod proposal;
mod recording;
mod records;
mod statistics;

use std::collections::BTreeSet;

use gladhand_core::operations::{CapabilityCall, Failure};
use gladhand_core::wire::{RawValue, json};
use gladhand_hub::{Answer, CapabilityProvider, Context, Features, Provider, Settling};
use rusqlite::Transaction;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use self::history::History;
use self::proposal::review;
use self::recording::Recording;
use self::records::{Experience, Feedback, Record};
use self::statistics::Statistics;
use crate::clock::Clock;
use crate::grants::{self, Programs};
use crate::owner::Owner;
use crate::storage::{Access, Step, Storage, StorageError};

/// Maximum number of proposals that are applied in one turn at the database. Each rewrites the whole refined state.
const TURN_PROPOSALS: usize = 4;

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
    /// How many durations of a component are kept for the 95th percentile: the latest. Fewer if there are many components.
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

    fn closing(&self) -> Option<Settling> {
        Some(self.storage.closing())
    }

    fn as_capabilities(&self) -> Option<&dyn CapabilityProvider> {
        Some(self)
    }
}

impl CapabilityProvider for Learning {
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
        let learner = Learner {
            call: call.into_owned(),
            owner: Owner::of(context),
            settings: self.settings.clone(),
            now: self.clock.now(),
        };
        self.storage.answer(context.terms.party, move || work(learner))
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

    /// The refinements of the principal of the request.
    fn history<'a>(&'a self, rows: &'a Transaction<'a>) -> History<'a> {
        History { statistics: self.statistics(rows), now: self.now }
    }

    /// Parses the message. An invalid message is a `parse_error`.
    fn read<T: DeserializeOwned>(&self) -> Result<T, StorageError> {
        self.call.read().map_err(|failure| StorageError::of("parse_error", failure.message))
    }

    fn record_feedback(self) -> Result<Step, StorageError> {
        #[derive(Deserialize)]
        struct Feedbacks {
            feedbacks: Vec<Box<RawValue>>,
        }

        let Feedbacks { feedbacks } = self.read()?;
        let records = self.parse_records::<Feedback>("feedbacks", &feedbacks)?;
        let (recorded, samples) = (records.len(), records.iter().flat_map(|record| &record.samples));
        let components: BTreeSet<String> = samples.map(|sample| sample.component.clone()).collect();
        let recording = Recording::new("feedback", records);
        recording.begin(self, move |learner, _| {
            Step::next(Access::Read, move |database| {
                let new_score = database.read(|rows| learner.statistics(rows).mean_of(&components))?;
                Step::done(&json!({ "recorded": recorded, "new_score": new_score }))
            })
        })
    }

    fn record_experience(self) -> Result<Step, StorageError> {
        #[derive(Deserialize)]
        struct Experiences {
            #[serde(default)]
            experiences: Vec<Box<RawValue>>,
        }

        let Experiences { experiences } = self.read()?;
        let records = self.parse_records::<Experience>("experiences", &experiences)?;
        let stored = records.len();
        let answer = move || Step::done(&json!({ "stored": stored }));
        Recording::new("experience", records).begin(self, move |learner, is_due| {
            if is_due { learner.adapt_to(String::new(), move |_, _| answer()) } else { answer() }
        })
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

    fn adapt(self) -> Result<Step, StorageError> {
        #[derive(Deserialize)]
        struct Adapt {
            #[serde(default)]
            component_name: String,
            #[serde(default)]
            strategy: Strategy,
        }

        let Adapt { component_name, strategy } = self.read()?;
        self.adapt_to(component_name.clone(), move |learner, adapted| {
            let message = format!("Adapted {adapted} skills using {}", strategy.word());
            Step::next(Access::Read, move |database| {
                let updated = database.read(|rows| learner.statistics(rows).performances(&component_name))?;
                Step::done(&json!({ "updated": updated, "message": message }))
            })
        })
    }

    /// Plans, and applies the proposals that pass review. Does nothing if there are too few experiences. `then` gets the
    /// number of applied proposals.
    fn adapt_to(
        self,
        component: String,
        then: impl FnOnce(Self, usize) -> Result<Step, StorageError> + Send + 'static,
    ) -> Result<Step, StorageError> {
        Step::next(Access::Read, move |database| {
            let approved = database.read(|rows| self.history(rows).approved(&component))?;
            match approved {
                Some(approved) => self.apply_approved(approved, 0, then),
                None => then(self, 0),
            }
        })
    }

    /// Applies proposals, a few in each turn.
    fn apply_approved(
        self,
        mut approved: Vec<Map<String, Value>>,
        adapted: usize,
        then: impl FnOnce(Self, usize) -> Result<Step, StorageError> + Send + 'static,
    ) -> Result<Step, StorageError> {
        Step::next(Access::Change, move |database| {
            let later = approved.split_off(approved.len().min(TURN_PROPOSALS));
            let adapted = adapted + database.change(|rows| self.history(rows).adapt(&approved, later.is_empty()))?;
            if later.is_empty() { then(self, adapted) } else { self.apply_approved(later, adapted, then) }
        })
    }

    fn show_statistics(self) -> Result<Step, StorageError> {
        let About { component_name } = self.read()?;
        Step::next(Access::Read, move |database| {
            let components = database.read(|rows| self.statistics(rows).performances(&component_name))?;
            Step::done(&json!({ "components": components }))
        })
    }

    fn plan(self) -> Result<Step, StorageError> {
        #[derive(Deserialize)]
        struct Plan {
            #[serde(default)]
            component_name: String,
            scope: Option<String>,
        }

        let Plan { component_name, scope } = self.read()?;
        Step::next(Access::Read, move |database| {
            let scope = scope.as_deref().unwrap_or("local");
            let proposals = database.read(|rows| self.history(rows).plan(&component_name, scope))?;
            let status = if proposals.is_empty() { "empty" } else { "ready" };
            Step::done(
                &json!({ "plan_id": gladhand_system::random_hex::<16>(), "proposals": proposals, "status": status }),
            )
        })
    }

    fn review(self) -> Result<Step, StorageError> {
        let Proposed { proposal } = self.read()?;
        let max = self.settings.record_bytes;
        if json::to_raw(&proposal).get().len() > max {
            return Err(StorageError::refused(format!("a proposal must not exceed {max} bytes")));
        }
        Step::next(Access::Read, move |database| {
            let made = database.read(|rows| self.history(rows).edits())?;
            Step::done(&review(&proposal, &made, self.settings.confidence_threshold))
        })
    }

    fn apply(self) -> Result<Step, StorageError> {
        let Proposed { proposal } = self.read()?;
        let applied = match history::check(&proposal, &self.settings) {
            Ok(written) => written,
            Err(refused) => return Step::done(&refused),
        };
        Step::next(Access::Change, move |database| {
            Step::done(&database.change(|rows| self.history(rows).apply(&proposal, &applied))?)
        })
    }

    fn roll_back(self) -> Result<Step, StorageError> {
        #[derive(Deserialize)]
        struct RollBack {
            #[serde(default)]
            refinement_id: String,
        }

        let RollBack { refinement_id } = self.read()?;
        Step::next(Access::Change, move |database| {
            let outcome = database.change(|rows| self.history(rows).roll_back(&refinement_id))?;
            let error = outcome.as_ref().err().map_or("", String::as_str);
            Step::done(&json!({ "refinement_id": refinement_id, "rolled_back": outcome.is_ok(), "error": error }))
        })
    }

    fn show_history(self) -> Result<Step, StorageError> {
        Step::next(Access::Read, move |database| {
            let entries = database.read(|rows| self.history(rows).entries())?;
            Step::done(&json!({ "entries": entries }))
        })
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
