//! The capabilities that start things: processes, environments and skills, through a hub and with real processes.

mod desk;
mod env;
mod proc;
mod skill;
mod storm;
