//! The capabilities that keep something in the database, asked as an agent asks them, against real files.

mod damaged;
mod house;
mod learning;
mod memory;
mod memory_limits;
mod memory_model;
mod planning;
mod principals;
