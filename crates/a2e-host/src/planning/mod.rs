//! The capability `planning`: plans with columns, tasks in them, and boards that show both.
//!
//! All agents of a principal share the plans in the database. Principals see nothing of each other. A task may name an
//! unknown plan, or a status that is not a column. It is stored unchanged, and a board shows such a status after the
//! columns.

use std::collections::HashMap;

use gladhand_core::operations::{CapabilityCall, Failure};
use gladhand_core::wire::{RawValue, json};
use gladhand_hub::{Answer, CapabilityProvider, Context, Features, Provider, Settling};
use rusqlite::{Row, Transaction, params};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;

use crate::grants::{self, Programs};
use crate::owner::Owner;
use crate::storage::{Access, LazyDatabase, Storage, StorageError};
use gladhand_system::random_hex;

/// The columns of a plan that names none.
const COLUMNS: [&str; 4] = ["backlog", "todo", "in_progress", "done"];

/// Limits for each principal. Requests beyond them fail with `runtime_error`.
#[derive(Debug, Clone)]
pub struct PlanningSettings {
    /// Maximum number of plans.
    pub plans: u32,
    /// Maximum number of tasks of all plans together.
    pub tasks: u32,
    /// Maximum number of columns of one plan.
    pub columns: usize,
    /// Maximum length in bytes of the name of a plan, a column, a status, an assignee or an id.
    pub name_bytes: usize,
    /// Maximum length of the title of a task, in bytes.
    pub title_bytes: usize,
    /// Maximum size of a request, in bytes.
    pub request_bytes: usize,
}

impl Default for PlanningSettings {
    fn default() -> Self {
        Self { plans: 1_000, tasks: 10_000, columns: 64, name_bytes: 256, title_bytes: 1_024, request_bytes: 64 * 1024 }
    }
}

/// Provider of the capability `planning`.
#[derive(Debug)]
pub struct Planning {
    storage: Storage,
    settings: PlanningSettings,
}

impl Planning {
    /// Keeps the plans in a database.
    pub fn new(storage: Storage, settings: PlanningSettings) -> Self {
        Self { storage, settings }
    }
}

impl Provider for Planning {
    fn name(&self) -> &str {
        "planning"
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

impl CapabilityProvider for Planning {
    fn capabilities(&self) -> Vec<&'static str> {
        vec!["planning"]
    }

    fn open_capabilities(&self) -> Vec<&'static str> {
        grants::open("planning", Programs::None)
    }

    fn serve(&self, call: CapabilityCall<'_>, context: &Context<'_>) -> Answer {
        let work = match call.kind {
            "planning/plan/create" => Planner::create_plan,
            "planning/plan/list" => Planner::list_plans,
            "planning/plan/board" => Planner::show_boards,
            "planning/task/add" => Planner::add_task,
            "planning/task/update" => Planner::update_task,
            "planning/task/list" => Planner::list_tasks,
            kind => {
                return Answer::Now(Err(Failure::of_capability("invalid_message", format!("{kind} is not a request"))));
            }
        };
        let (size, max) = (call.message.get().len(), self.settings.request_bytes);
        if size > max {
            let problem = format!("the request has {size} bytes, the limit is {max}");
            return Answer::Now(Err(Failure::refused(problem)));
        }
        let access = match call.kind {
            "planning/plan/create" | "planning/task/add" | "planning/task/update" => Access::Change,
            _ => Access::Read,
        };
        let planner = Planner { call: call.into_owned(), owner: Owner::of(context), settings: self.settings.clone() };
        self.storage.answer_short(access, context.terms.party, move |database| work(&planner, database))
    }
}

/// One request, with everything needed to answer it.
#[derive(Debug)]
struct Planner {
    call: CapabilityCall<'static>,
    owner: Owner,
    settings: PlanningSettings,
}

impl Planner {
    fn create_plan(&self, database: &LazyDatabase) -> Result<Box<RawValue>, StorageError> {
        #[derive(Deserialize)]
        struct Create {
            #[serde(default = "default_name")]
            name: String,
            #[serde(default)]
            columns: Vec<String>,
            #[serde(default)]
            description: String,
        }
        fn default_name() -> String {
            "default".to_owned()
        }

        let mut plan: Create = self.call.read()?;
        if plan.columns.is_empty() {
            plan.columns = COLUMNS.map(str::to_owned).to_vec();
        }
        if plan.columns.len() > self.settings.columns {
            return Err(StorageError::refused(format!(
                "a plan must not have more than {} columns",
                self.settings.columns
            )));
        }
        for name in plan.columns.iter().chain([&plan.name]) {
            check_length("a name", name, self.settings.name_bytes)?;
        }
        let plan_id = random_hex::<6>();
        database.change(|rows| {
            self.check_limit(rows, "planning_plans", self.settings.plans)?;
            let insert = "INSERT INTO planning_plans (principal, plan_id, name, columns, description, created_at) \
                VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let columns = json::to_raw(&plan.columns);
            let principal = self.owner.principal();
            rows.execute(
                insert,
                params![principal, plan_id, plan.name, columns.get(), plan.description, crate::now()],
            )?;
            Ok::<_, StorageError>(())
        })?;
        Ok(json::to_raw(&json!({ "success": true, "plan_id": plan_id, "columns": plan.columns })))
    }

    fn list_plans(&self, database: &LazyDatabase) -> Result<Box<RawValue>, StorageError> {
        let plans = database.read(|rows| self.plans(rows, ""))?;
        Ok(json::to_raw(&json!({ "plans": plans })))
    }

    fn show_boards(&self, database: &LazyDatabase) -> Result<Box<RawValue>, StorageError> {
        #[derive(Deserialize)]
        struct Show {
            #[serde(default)]
            plan_id: String,
        }

        let Show { plan_id } = self.call.read()?;
        let boards = database.read(|rows| {
            let plans = self.plans(rows, &plan_id)?;
            // One query for all plans: there may be many, and no index has the tasks of one.
            let mut tasks: HashMap<String, Vec<Task>> = HashMap::new();
            for mut task in self.tasks(rows, &plan_id, "")? {
                tasks.entry(task.plan_id.take().unwrap_or_default()).or_default().push(task);
            }
            let board = |plan: Plan| Board::new(tasks.remove(&plan.plan_id).unwrap_or_default(), plan);
            Ok::<_, rusqlite::Error>(plans.into_iter().map(board).collect())
        })?;
        Ok(json::to_raw(&Boards { boards }))
    }

    fn add_task(&self, database: &LazyDatabase) -> Result<Box<RawValue>, StorageError> {
        #[derive(Deserialize)]
        struct Add {
            plan_id: String,
            title: String,
            #[serde(default = "default_status")]
            status: String,
            #[serde(default)]
            description: String,
            #[serde(default)]
            assignee: String,
            #[serde(default)]
            deps: Vec<String>,
            #[serde(default)]
            metadata: Option<Box<RawValue>>,
        }
        fn default_status() -> String {
            "backlog".to_owned()
        }

        let task: Add = self.call.read()?;
        check_length("a title", &task.title, self.settings.title_bytes)?;
        for name in [&task.plan_id, &task.status, &task.assignee] {
            check_length("a name", name, self.settings.name_bytes)?;
        }
        let task_id = random_hex::<6>();
        let insert = "INSERT INTO planning_tasks (principal, task_id, plan_id, title, status, description, assignee, deps, \
            metadata, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        database.change(|rows| {
            self.check_limit(rows, "planning_tasks", self.settings.tasks)?;
            rows.execute(
                insert,
                params![
                    self.owner.principal(),
                    task_id,
                    task.plan_id,
                    task.title,
                    task.status,
                    task.description,
                    task.assignee,
                    json::to_raw(&task.deps).get(),
                    task.metadata.as_ref().map_or("{}", |metadata| metadata.get()),
                    crate::now(),
                ],
            )?;
            Ok::<_, StorageError>(())
        })?;
        Ok(json::to_raw(&json!({ "success": true, "task_id": task_id, "status": task.status })))
    }

    /// Changes the members that are not empty. A task that exists counts as updated even if nothing changes.
    fn update_task(&self, database: &LazyDatabase) -> Result<Box<RawValue>, StorageError> {
        #[derive(Deserialize)]
        struct Update {
            plan_id: String,
            task_id: String,
            #[serde(default)]
            status: String,
            #[serde(default)]
            assignee: String,
            #[serde(default)]
            deps: Vec<String>,
        }

        let task: Update = self.call.read()?;
        for name in [&task.status, &task.assignee] {
            check_length("a name", name, self.settings.name_bytes)?;
        }
        let deps = if task.deps.is_empty() { String::new() } else { json::to_raw(&task.deps).get().to_owned() };
        let updated = database.change(|rows| {
            let update = "UPDATE planning_tasks SET status = coalesce(nullif(?3, ''), status), \
                assignee = coalesce(nullif(?4, ''), assignee), deps = coalesce(nullif(?5, ''), deps) \
                WHERE plan_id = ?1 AND task_id = ?2 AND principal = ?6";
            let principal = self.owner.principal();
            rows.execute(update, params![task.plan_id, task.task_id, task.status, task.assignee, deps, principal])
        })?;
        Ok(json::to_raw(&json!({ "success": updated > 0, "task_id": task.task_id })))
    }

    fn list_tasks(&self, database: &LazyDatabase) -> Result<Box<RawValue>, StorageError> {
        #[derive(Deserialize)]
        struct List {
            #[serde(default)]
            plan_id: String,
            #[serde(default)]
            status: String,
        }

        let List { plan_id, status } = self.call.read()?;
        let tasks = database.read(|rows| self.tasks(rows, &plan_id, &status))?;
        Ok(json::to_raw(&json!({ "tasks": tasks })))
    }

    /// The plan with this id, or all plans if it is empty, in order of creation.
    fn plans(&self, rows: &Transaction<'_>, plan_id: &str) -> rusqlite::Result<Vec<Plan>> {
        let select = "SELECT plan_id, name, columns FROM planning_plans WHERE principal = ?2 \
            AND (?1 = '' OR plan_id = ?1) ORDER BY id";
        let read = |row: &Row<'_>| {
            let columns: String = row.get(2)?;
            let columns = serde_json::from_str(&columns).unwrap_or_default();
            Ok(Plan { plan_id: row.get(0)?, name: row.get(1)?, columns })
        };
        rows.prepare_cached(select)?.query_map([plan_id, self.owner.principal()], read)?.collect()
    }

    /// The tasks of a plan and a status, in order of creation. An empty plan or status matches all.
    fn tasks(&self, rows: &Transaction<'_>, plan_id: &str, status: &str) -> rusqlite::Result<Vec<Task>> {
        let select = "SELECT task_id, title, status, assignee, plan_id FROM planning_tasks \
            WHERE (?1 = '' OR plan_id = ?1) AND (?2 = '' OR status = ?2) AND principal = ?3 ORDER BY id";
        let read = |row: &Row<'_>| {
            Ok(Task {
                task_id: row.get(0)?,
                title: row.get(1)?,
                status: row.get(2)?,
                assignee: row.get(3)?,
                plan_id: row.get(4)?,
            })
        };
        rows.prepare_cached(select)?.query_map([plan_id, status, self.owner.principal()], read)?.collect()
    }

    fn check_limit(&self, rows: &Transaction<'_>, table: &'static str, max: u32) -> Result<(), StorageError> {
        let count: u32 = rows.query_row(
            &format!("SELECT count(*) FROM {table} WHERE principal = ?1"),
            [self.owner.principal()],
            |row| row.get(0),
        )?;
        if count < max {
            return Ok(());
        }
        Err(StorageError::refused(format!("the limit of {max} is reached")))
    }
}

#[derive(Debug, Serialize)]
struct Plan {
    plan_id: String,
    name: String,
    columns: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Task {
    task_id: String,
    title: String,
    status: String,
    assignee: String,
    /// Left out on a board.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_id: Option<String>,
}

/// The response to a board request. It keeps the order of columns.
#[derive(Debug, Serialize)]
struct Boards {
    boards: Vec<Board>,
}

/// A plan with its tasks.
#[derive(Debug, Serialize)]
struct Board {
    #[serde(flatten)]
    plan: Plan,
    tasks: Groups,
}

/// Tasks by status: the columns first, then statuses that are not columns.
#[derive(Debug)]
struct Groups(Vec<(String, Vec<Task>)>);

impl Board {
    fn new(tasks: Vec<Task>, plan: Plan) -> Self {
        let mut groups: Vec<(String, Vec<Task>)> = Vec::new();
        // Every task may have a status of its own.
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut place = |status: &str, groups: &mut Vec<(String, Vec<Task>)>| match places.get(status) {
            Some(place) => *place,
            None => {
                places.insert(status.to_owned(), groups.len());
                groups.push((status.to_owned(), Vec::new()));
                groups.len() - 1
            }
        };
        for column in &plan.columns {
            place(column, &mut groups);
        }
        for task in tasks {
            let place = place(&task.status, &mut groups);
            groups[place].1.push(Task { plan_id: None, ..task });
        }
        Self { plan, tasks: Groups(groups) }
    }
}

impl Serialize for Groups {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (status, tasks) in &self.0 {
            map.serialize_entry(status, tasks)?;
        }
        map.end()
    }
}

fn check_length(member: &str, text: &str, max: usize) -> Result<(), StorageError> {
    if text.len() <= max {
        return Ok(());
    }
    Err(StorageError::refused(format!("{member} must not exceed {max} bytes")))
}
