//! Code that several commands share. No file here is a command.

pub(crate) mod arguments;
pub(crate) mod drawing;
pub(crate) mod existence_checks;
pub(crate) mod hidden_tools;
pub(crate) mod message_filter;
pub(crate) mod opened_server;
pub(crate) mod raw_exchange;
pub(crate) mod recordings;
pub(crate) mod references;
pub(crate) mod result_output;
pub(crate) mod runtime;
pub(crate) mod session_drawing;
pub(crate) mod settings;
pub(crate) mod sign_in;
pub(crate) mod suggest;
