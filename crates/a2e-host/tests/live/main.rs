//! The capabilities that start processes: `proc`, `env` and `skill`, through a hub and with real processes.

mod desk;
mod env;
mod proc;
mod skill;
mod storm;
