//! Analyses repositories: their contents, their frameworks, and how to integrate a target into them.
//!
//! Every tool is a plain function of its input and a [`Setting`]; [`tools`] lists them by name, with JSON Schemas. The
//! tools write no file, start no program, and read neither network, clock nor environment: the same files give the same
//! answer. They block while they read the files, within [`Limits`].
//!
//! Their knowledge is data: frameworks in `frameworks/`, integration targets in `recipes/`, queries of syntax trees in
//! `queries/`.

mod context;
mod edit;
mod error;
mod frameworks;
mod input;
mod integration;
mod language;
mod manifest;
#[cfg(test)]
mod nesting;
mod plan;
mod profile;
mod recipes;
mod root;
mod setting;
mod site;
mod source;
mod steps;
mod survey;
mod text;
mod tokens;
mod tools;
mod validate;
mod walk;
mod workflow;

pub use context::*;
pub use error::RepositoryError;
pub use frameworks::{
    DetectInput, Detection, Evidence, Framework, InsertAnchor, Kind, MemberFrameworks, ProfileInput, Recommendation,
    detect_frameworks,
};
pub use integration::IntegrationInput;
pub use plan::{Edit, EditAnchor, Patch, Payload, Plan, Rollback, propose_edit_plan};
pub use profile::{AnalyzeInput, Member, Profile, Risk, Stats, analyze_repository};
pub use recipes::{RecipeError, Recipes};
pub use setting::{Documents, Limits, Passage, Places, Progress, Secrets, Setting, Stage};
pub use steps::{Step, Steps, generate_integration_steps};
pub use tools::{RepositoryTool, read_input, tool, tools};
pub use validate::{Problem, ValidateInput, Validation, validate_edit_plan};
pub use workflow::{
    FetchedContext, LlmInputs, Staged, StructureContext, ValidationSummary, Workflow, WorkflowInput,
    fetch_integration_context, run_integration_workflow,
};
