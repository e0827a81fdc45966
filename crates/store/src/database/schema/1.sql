-- Memory: entries of one agent (owner `agent:<id>`) or of all agents (owner `shared`), separated by namespace and scope
-- (space). Ids grow and are never reused, so they give the order of writing.
CREATE TABLE memory (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    space BLOB NOT NULL,
    tier TEXT NOT NULL,
    identity BLOB NOT NULL,
    tags TEXT NOT NULL,
    words INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    ttl INTEGER NOT NULL,
    expires_at REAL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    source TEXT NOT NULL,
    key TEXT NOT NULL,
    content TEXT NOT NULL,
    UNIQUE (owner, space, identity, tier)
);
CREATE INDEX memory_by_owner ON memory (owner, id);
CREATE INDEX memory_by_expiry ON memory (expires_at) WHERE expires_at IS NOT NULL;

-- Word counts of entries, separate for each owner and space (a corner is a digest of both). FTS5 has a single index for all
-- owners: the entries of one agent would change the scores and the query times of another.
CREATE TABLE memory_words (
    corner INTEGER NOT NULL,
    word TEXT NOT NULL,
    entry INTEGER NOT NULL,
    times INTEGER NOT NULL,
    PRIMARY KEY (corner, word, entry)
) WITHOUT ROWID;
CREATE INDEX memory_words_by_entry ON memory_words (entry);

-- The number and total size of the entries of each owner.
CREATE TABLE memory_usage (owner TEXT PRIMARY KEY, entries INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE TRIGGER memory_added AFTER INSERT ON memory BEGIN
    INSERT INTO memory_usage VALUES (new.owner, 1, new.bytes)
        ON CONFLICT (owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER memory_removed AFTER DELETE ON memory BEGIN
    DELETE FROM memory_words WHERE entry = old.id;
    UPDATE memory_usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE owner = old.owner;
    DELETE FROM memory_usage WHERE owner = old.owner AND entries = 0;
END;

-- Learning: statistics of components, their latest durations, and the records about them.
CREATE TABLE learning_components (
    name TEXT PRIMARY KEY,
    calls_total INTEGER NOT NULL,
    calls_success INTEGER NOT NULL,
    calls_failed INTEGER NOT NULL,
    score_sum REAL NOT NULL,
    duration_count INTEGER NOT NULL,
    duration_sum REAL NOT NULL,
    last_called REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE learning_durations (id INTEGER PRIMARY KEY, component TEXT NOT NULL, milliseconds REAL NOT NULL);
CREATE INDEX learning_durations_by_component ON learning_durations (component, id);
CREATE TABLE learning_records (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    agent TEXT NOT NULL,
    told_at REAL NOT NULL,
    bytes INTEGER NOT NULL,
    body TEXT NOT NULL
);

-- The state that refinements change, the number of adaptations, and the log of changes. One row.
CREATE TABLE learning_state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    experiences INTEGER NOT NULL,
    records_bytes INTEGER NOT NULL,
    policy_version INTEGER NOT NULL,
    state TEXT NOT NULL
);
INSERT INTO learning_state VALUES (1, 0, 0, 0, '{}');
CREATE TRIGGER learning_record_added AFTER INSERT ON learning_records BEGIN
    UPDATE learning_state SET records_bytes = records_bytes + new.bytes;
END;
CREATE TRIGGER learning_record_removed AFTER DELETE ON learning_records BEGIN
    UPDATE learning_state SET records_bytes = records_bytes - old.bytes;
END;
CREATE TABLE learning_refinements (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    refinement_id TEXT NOT NULL UNIQUE,
    applied_at REAL NOT NULL,
    rolled_back_at REAL,
    applied_edits INTEGER NOT NULL,
    failed_edits INTEGER NOT NULL,
    proposal TEXT NOT NULL,
    snapshot TEXT NOT NULL
);

-- Planning.
CREATE TABLE planning_plans (
    id INTEGER PRIMARY KEY,
    plan_id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    columns TEXT NOT NULL,
    description TEXT NOT NULL,
    created_at REAL NOT NULL
);
CREATE TABLE planning_tasks (
    id INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL UNIQUE,
    plan_id TEXT NOT NULL,
    title TEXT NOT NULL,
    status TEXT NOT NULL,
    description TEXT NOT NULL,
    assignee TEXT NOT NULL,
    deps TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at REAL NOT NULL
);
CREATE INDEX planning_tasks_by_plan ON planning_tasks (plan_id, id);
