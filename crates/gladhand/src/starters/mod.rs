//! Starts the programs of providers on a leash, so that no descendant outlives this process.

#[cfg(unix)]
pub(crate) mod agent_tools;
#[cfg(unix)]
pub(crate) mod capabilities;
