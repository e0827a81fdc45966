//! Agent sessions: turns, queue, steering, history, compaction, skills.
