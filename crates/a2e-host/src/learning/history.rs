//! Refinements: proposals derived from the statistics, the edits that were applied, and rollback.

use gladhand_core::wire::json::{is_deeper_than, to_raw};
use gladhand_core::wire::{RawValue, values};
use rusqlite::{OptionalExtension as _, Row, params};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::LearningSettings;
use super::proposal::{Edit, at, edits, review};
use super::statistics::{PoorComponent, Statistics};
use crate::storage::StorageError;
use gladhand_system::random_hex;

/// A component with a mean score below this should be called less often.
const POOR: f64 = 0.5;
/// Maximum nesting depth of the refined state. Deeper JSON could not be read back.
const MAX_DEPTH: usize = 100;
/// Maximum length of a refinement id, in bytes.
const MAX_ID_BYTES: usize = 128;
/// Maximum number of JSON values of a proposal. All that are remembered are read at once.
const MAX_PROPOSAL_VALUES: usize = 2_000;

const INSERT: &str = "INSERT INTO learning_refinements (refinement_id, applied_at, applied_edits, failed_edits, proposal, \
    snapshot, principal) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const OLD: &str = "DELETE FROM learning_refinements WHERE principal = ?2 AND id <= \
    (SELECT id FROM learning_refinements WHERE principal = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?1)";
const ENTRIES: &str = "SELECT refinement_id, applied_at, rolled_back_at, applied_edits, failed_edits, proposal \
    FROM learning_refinements WHERE principal = ?1 ORDER BY id";

/// The refinements of a principal and the state that they change, at one point in time.
#[derive(Debug)]
pub(super) struct History<'a> {
    pub(super) statistics: Statistics<'a>,
    pub(super) now: f64,
}

/// A proposal that is small enough to be applied.
#[derive(Debug)]
pub(super) struct Checked {
    refinement_id: String,
    text: Box<RawValue>,
}

/// Checks the size of a proposal, which needs no database.
pub(super) fn check(proposal: &Map<String, Value>, settings: &LearningSettings) -> Result<Checked, Applied> {
    let named = proposal.get("refinement_id").and_then(Value::as_str).filter(|id| !id.is_empty());
    let refinement_id = named.map_or_else(random_hex::<16>, str::to_owned);
    let text = to_raw(proposal);
    let problem = if values::has_more_than(MAX_PROPOSAL_VALUES, text.get().as_bytes()) {
        format!("a proposal must not have more than {MAX_PROPOSAL_VALUES} JSON values")
    } else if text.get().len() > settings.record_bytes {
        format!("a proposal must not exceed {} bytes", settings.record_bytes)
    } else if refinement_id.len() > MAX_ID_BYTES {
        format!("an id must not exceed {MAX_ID_BYTES} bytes")
    } else {
        return Ok(Checked { refinement_id, text });
    };
    Err(refused(refinement_id, edits(proposal), problem))
}

fn refused(refinement_id: String, written: &[Value], error: String) -> Applied {
    Applied { refinement_id, failed_edits: written.len(), error, ..Applied::default() }
}

/// The result of applying a proposal.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Applied {
    refinement_id: String,
    applied_edits: usize,
    failed_edits: usize,
    rollback_available: bool,
    error: String,
}

impl History<'_> {
    /// Plans, and returns the proposals that pass review. `None` if there are too few experiences.
    pub(super) fn approved(&self, component: &str) -> Result<Option<Vec<Map<String, Value>>>, StorageError> {
        let settings = self.statistics.settings;
        if self.statistics.experiences()? < u64::from(settings.min_experiences) {
            return Ok(None);
        }
        let (mut proposals, made) = (self.plan(component, &settings.scope)?, self.edits()?);
        proposals.retain(|proposal| review(proposal, &made, settings.confidence_threshold).approved);
        Ok(Some(proposals))
    }

    /// Applies proposals that were approved. Returns how many could be applied. The last ones of an adaptation count it.
    pub(super) fn adapt(&self, approved: &[Map<String, Value>], is_last: bool) -> Result<usize, StorageError> {
        let mut adapted = 0;
        for proposal in approved {
            let applied = match check(proposal, self.statistics.settings) {
                Ok(checked) => self.apply(proposal, &checked)?,
                Err(refused) => refused,
            };
            adapted += usize::from(applied.rollback_available);
        }
        if is_last {
            let bump = "UPDATE learning_state SET policy_version = policy_version + 1 WHERE principal = ?1";
            self.statistics.rows.prepare_cached(bump)?.execute([self.statistics.principal])?;
        }
        Ok(adapted)
    }

    /// Proposes an edit for each component with a poor score, the worst first, unless the edit would change nothing.
    pub(super) fn plan(&self, component: &str, scope: &str) -> Result<Vec<Map<String, Value>>, StorageError> {
        let settings = self.statistics.settings;
        let state = self.state()?;
        let poor = self.statistics.poor(component, settings.min_experiences, POOR)?;
        let proposals = poor.iter().filter_map(|known| self.propose(known, scope, &state));
        Ok(proposals.take(settings.proposals).collect())
    }

    fn propose(&self, known: &PoorComponent, scope: &str, state: &Map<String, Value>) -> Option<Map<String, Value>> {
        let (mean, calls) = (known.mean, known.calls);
        let path = format!("router.weights.{}", known.name);
        let weight = json!((2.0 * mean).min(1.0));
        let old = at(state, &path).cloned().unwrap_or_default();
        if old == weight {
            return None;
        }
        // Confidence grows with the number of calls.
        let confidence = calls as f64 / (calls as f64 + f64::from(self.statistics.settings.min_experiences));
        let summary = format!("mean score {mean:.3} over {calls} calls");
        let proposal = json!({
            "refinement_id": random_hex::<16>(),
            "scope": scope,
            "component_name": known.name,
            "feedback_summary": summary,
            "confidence": confidence,
            "created_at": self.now,
            "status": "proposed",
            "edits": [{
                "target": "router_weight",
                "op": "replace",
                "path": path,
                "old_value": old,
                "new_value": weight,
                "reason": summary,
            }],
        });
        proposal.as_object().cloned()
    }

    /// Applies the valid edits of a proposal, and stores a snapshot of the state before them.
    pub(super) fn apply(&self, proposal: &Map<String, Value>, checked: &Checked) -> Result<Applied, StorageError> {
        let settings = self.statistics.settings;
        let Checked { refinement_id, text: kept } = checked;
        let (refinement_id, written) = (refinement_id.clone(), edits(proposal));
        let refused = |refinement_id, error: String| Ok(refused(refinement_id, written, error));
        if self.is_applied(&refinement_id)? == Some(true) {
            let error = format!("refinement {refinement_id} is applied already");
            return refused(refinement_id, error);
        }
        let before = self.state()?;
        let mut state = before.clone();
        let mut errors = Vec::new();
        for edit in written {
            if let Err(error) = Edit::read(edit).and_then(|edit| edit.apply(&mut state)) {
                errors.push(error);
            }
        }
        let applied_edits = written.len() - errors.len();
        if applied_edits == 0 {
            let error = errors.into_iter().next().unwrap_or_else(|| "the proposal has no edits".to_owned());
            return refused(refinement_id, error);
        }
        let text = to_raw(&state);
        if text.get().len() > settings.state_bytes || is_deeper_than(text.get().as_bytes(), MAX_DEPTH) {
            return refused(refinement_id, "the refined state would become too large".to_owned());
        }
        let Statistics { rows, principal, .. } = self.statistics;
        self.statistics.ensure_state()?;
        let again = "DELETE FROM learning_refinements WHERE refinement_id = ?1 AND principal = ?2";
        rows.execute(again, params![refinement_id, principal])?;
        let (applied, failed) = (applied_edits as i64, errors.len() as i64);
        let snapshot = to_raw(&before);
        let row = params![refinement_id, self.now, applied, failed, kept.get(), snapshot.get(), principal];
        rows.prepare_cached(INSERT)?.execute(row)?;
        rows.prepare_cached(OLD)?.execute(params![settings.refinements, principal])?;
        rows.execute("UPDATE learning_state SET state = ?1 WHERE principal = ?2", params![text.get(), principal])?;
        Ok(Applied {
            refinement_id,
            applied_edits,
            failed_edits: errors.len(),
            rollback_available: true,
            error: errors.into_iter().next().unwrap_or_default(),
        })
    }

    /// Restores the state before a refinement, which also undoes all later refinements. The inner error says why it
    /// cannot.
    pub(super) fn roll_back(&self, refinement_id: &str) -> Result<Result<(), String>, StorageError> {
        match self.is_applied(refinement_id)? {
            None => return Ok(Err(format!("unknown refinement: {refinement_id:.64}"))),
            Some(false) => return Ok(Err(format!("refinement {refinement_id:.64} is rolled back already"))),
            Some(true) => {}
        }
        let Statistics { rows, principal, .. } = self.statistics;
        let restore = "UPDATE learning_state SET state = \
            (SELECT snapshot FROM learning_refinements WHERE refinement_id = ?1 AND principal = ?2) WHERE principal = ?2";
        rows.execute(restore, [refinement_id, principal])?;
        let mark = "UPDATE learning_refinements SET rolled_back_at = ?2 WHERE rolled_back_at IS NULL AND principal = ?3 \
            AND id >= (SELECT id FROM learning_refinements WHERE refinement_id = ?1 AND principal = ?3)";
        rows.execute(mark, params![refinement_id, self.now, principal])?;
        Ok(Ok(()))
    }

    /// Whether a refinement is in force; `None` if the id is unknown.
    fn is_applied(&self, refinement_id: &str) -> rusqlite::Result<Option<bool>> {
        let Statistics { rows, principal, .. } = self.statistics;
        let select =
            "SELECT rolled_back_at IS NULL FROM learning_refinements WHERE refinement_id = ?1 AND principal = ?2";
        rows.query_row(select, [refinement_id, principal], |row| row.get(0)).optional()
    }

    /// The state that the refinements have produced so far.
    fn state(&self) -> rusqlite::Result<Map<String, Value>> {
        let Statistics { rows, principal, .. } = self.statistics;
        let select = "SELECT state FROM learning_state WHERE principal = ?1";
        let state: Option<String> = rows.query_row(select, [principal], |row| row.get(0)).optional()?;
        Ok(state.and_then(|state| serde_json::from_str(&state).ok()).unwrap_or_default())
    }

    /// All edits that were ever proposed and are still remembered.
    pub(super) fn edits(&self) -> Result<Vec<Edit>, StorageError> {
        let Statistics { rows, principal, .. } = self.statistics;
        let mut proposals = rows.prepare_cached("SELECT proposal FROM learning_refinements WHERE principal = ?1")?;
        let mut proposals = proposals.query([principal])?;
        let mut made = Vec::new();
        while let Some(row) = proposals.next()? {
            let proposal: Map<String, Value> =
                serde_json::from_str(row.get_ref(0)?.as_str().unwrap_or_default()).unwrap_or_default();
            made.extend(edits(&proposal).iter().filter_map(|edit| Edit::read(edit).ok()));
        }
        Ok(made)
    }

    /// The refinements as they are listed, the oldest first.
    pub(super) fn entries(&self) -> rusqlite::Result<Vec<Value>> {
        let read = |row: &Row<'_>| {
            let proposal: String = row.get(5)?;
            let proposal: Value = serde_json::from_str(&proposal).unwrap_or_default();
            let rolled_back_at: Option<f64> = row.get(2)?;
            Ok(json!({
                "refinement_id": row.get::<_, String>(0)?,
                "status": if rolled_back_at.is_some() { "rolled_back" } else { "applied" },
                "applied_at": row.get::<_, f64>(1)?,
                "rolled_back_at": rolled_back_at,
                "applied_edits": row.get::<_, i64>(3)?,
                "failed_edits": row.get::<_, i64>(4)?,
                "proposal": proposal,
            }))
        };
        self.statistics.rows.prepare_cached(ENTRIES)?.query_map([self.statistics.principal], read)?.collect()
    }
}
