//! Shadowing: an upstream cannot take over a tool name that another upstream had first.
