-- Learning and planning data becomes separate for each principal. Existing data belongs to `local`, the principal of agents on
-- stdio. The memory tables stay: their owners contain the principal, and owners without one belong to `local`.
DROP TRIGGER learning_record_added;
DROP TRIGGER learning_record_removed;
DROP INDEX learning_durations_by_component;
DROP INDEX planning_tasks_by_plan;

ALTER TABLE learning_components RENAME TO old_learning_components;
CREATE TABLE learning_components (
    principal TEXT NOT NULL,
    name TEXT NOT NULL,
    calls_total INTEGER NOT NULL,
    calls_success INTEGER NOT NULL,
    calls_failed INTEGER NOT NULL,
    score_sum REAL NOT NULL,
    duration_count INTEGER NOT NULL,
    duration_sum REAL NOT NULL,
    last_called REAL NOT NULL,
    PRIMARY KEY (principal, name)
) WITHOUT ROWID;
INSERT INTO learning_components SELECT 'local', name, calls_total, calls_success, calls_failed, score_sum, duration_count,
    duration_sum, last_called FROM old_learning_components;
DROP TABLE old_learning_components;

ALTER TABLE learning_durations RENAME TO old_learning_durations;
CREATE TABLE learning_durations (
    id INTEGER PRIMARY KEY,
    principal TEXT NOT NULL,
    component TEXT NOT NULL,
    milliseconds REAL NOT NULL
);
INSERT INTO learning_durations SELECT id, 'local', component, milliseconds FROM old_learning_durations;
DROP TABLE old_learning_durations;
CREATE INDEX learning_durations_by_component ON learning_durations (principal, component, id);

ALTER TABLE learning_records RENAME TO old_learning_records;
CREATE TABLE learning_records (
    id INTEGER PRIMARY KEY,
    principal TEXT NOT NULL,
    kind TEXT NOT NULL,
    agent TEXT NOT NULL,
    told_at REAL NOT NULL,
    bytes INTEGER NOT NULL,
    body TEXT NOT NULL
);
INSERT INTO learning_records SELECT id, 'local', kind, agent, told_at, bytes, body FROM old_learning_records;
DROP TABLE old_learning_records;
CREATE INDEX learning_records_by_principal ON learning_records (principal, id);

-- The state that refinements change, the number of adaptations, and recording. One row for each principal.
ALTER TABLE learning_state RENAME TO old_learning_state;
CREATE TABLE learning_state (
    principal TEXT PRIMARY KEY,
    experiences INTEGER NOT NULL DEFAULT 0,
    records INTEGER NOT NULL DEFAULT 0,
    records_bytes INTEGER NOT NULL DEFAULT 0,
    policy_version INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT '{}'
) WITHOUT ROWID;
INSERT INTO learning_state SELECT 'local', experiences, (SELECT count(*) FROM learning_records), records_bytes,
    policy_version, state FROM old_learning_state;
DROP TABLE old_learning_state;
CREATE TRIGGER learning_record_added AFTER INSERT ON learning_records BEGIN
    UPDATE learning_state SET records = records + 1, records_bytes = records_bytes + new.bytes
        WHERE principal = new.principal;
END;
CREATE TRIGGER learning_record_removed AFTER DELETE ON learning_records BEGIN
    UPDATE learning_state SET records = records - 1, records_bytes = records_bytes - old.bytes
        WHERE principal = old.principal;
END;

ALTER TABLE learning_refinements RENAME TO old_learning_refinements;
CREATE TABLE learning_refinements (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    principal TEXT NOT NULL,
    refinement_id TEXT NOT NULL,
    applied_at REAL NOT NULL,
    rolled_back_at REAL,
    applied_edits INTEGER NOT NULL,
    failed_edits INTEGER NOT NULL,
    proposal TEXT NOT NULL,
    snapshot TEXT NOT NULL,
    UNIQUE (principal, refinement_id)
);
INSERT INTO learning_refinements SELECT id, 'local', refinement_id, applied_at, rolled_back_at, applied_edits,
    failed_edits, proposal, snapshot FROM old_learning_refinements;
DROP TABLE old_learning_refinements;
CREATE INDEX learning_refinements_by_principal ON learning_refinements (principal, id);

ALTER TABLE planning_plans RENAME TO old_planning_plans;
CREATE TABLE planning_plans (
    id INTEGER PRIMARY KEY,
    principal TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    name TEXT NOT NULL,
    columns TEXT NOT NULL,
    description TEXT NOT NULL,
    created_at REAL NOT NULL,
    UNIQUE (principal, plan_id)
);
INSERT INTO planning_plans SELECT id, 'local', plan_id, name, columns, description, created_at FROM old_planning_plans;
DROP TABLE old_planning_plans;
CREATE INDEX planning_plans_by_principal ON planning_plans (principal, id);

ALTER TABLE planning_tasks RENAME TO old_planning_tasks;
CREATE TABLE planning_tasks (
    id INTEGER PRIMARY KEY,
    principal TEXT NOT NULL,
    task_id TEXT NOT NULL,
    plan_id TEXT NOT NULL,
    title TEXT NOT NULL,
    status TEXT NOT NULL,
    description TEXT NOT NULL,
    assignee TEXT NOT NULL,
    deps TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at REAL NOT NULL,
    UNIQUE (principal, task_id)
);
INSERT INTO planning_tasks SELECT id, 'local', task_id, plan_id, title, status, description, assignee, deps, metadata,
    created_at FROM old_planning_tasks;
DROP TABLE old_planning_tasks;
CREATE INDEX planning_tasks_by_plan ON planning_tasks (principal, plan_id, id);
