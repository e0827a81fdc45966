//! MCP servers for agents of A2E: registered ones, over pipes and HTTP, and those of the configuration.

#![expect(clippy::unwrap_used, reason = "a helper of a test may panic as the test may")]

mod configured;
mod processes;
mod served;
mod stage;
