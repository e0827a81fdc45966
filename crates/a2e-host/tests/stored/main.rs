//! The capabilities that keep data in the database, tested through requests against real files.

mod damaged;
mod fixture;
mod learning;
mod memory;
mod memory_limits;
mod memory_model;
mod planning;
mod principals;
mod turns;
