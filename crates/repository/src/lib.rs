//! Reads repositories: what they are made of, which frameworks they use, and how to integrate something into them.
//!
//! Every tool is a plain function of its input and a [`Setting`]; [`tools`] has them all by name, with JSON Schemas. Nothing here
//! writes a file, starts a program or uses the network, and nothing asks for the time or the environment: the same tree gives the same
//! answer. Everything blocks for as long as reading the tree takes, within [`Limits`].
//!
//! What the tools know is data: frameworks in `frameworks/`, integration targets in `recipes/`, questions to syntax trees in `queries/`.

mod context;
mod edit;
mod error;
mod frameworks;
mod input;
mod integration;
mod language;
mod manifest;
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
