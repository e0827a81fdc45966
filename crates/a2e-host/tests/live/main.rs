//! The capabilities that start processes: `proc`, `env` and `skill`, through a hub and with real processes.

mod env;
mod fixture;
mod load;
mod proc;
mod skill;
