//! Stored state of agents is keyed by principal and agent id.
