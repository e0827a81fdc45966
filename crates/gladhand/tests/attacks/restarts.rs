//! Restarts: one client that crashes a tool does not lock out the others.
