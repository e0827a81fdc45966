//! Our own documentation: help, manual pages, reports in JSON, and every snippet of the pages.

#[path = "../support/mod.rs"]
mod support;

#[cfg(target_os = "linux")]
mod a2e;
mod help;
mod links;
mod pages;
mod reports;
mod shell;
#[cfg(target_os = "linux")]
mod snippets;
#[cfg(target_os = "linux")]
mod stage;
