//! Who answers calls inside this process.

pub mod agent_tools;
pub mod toolbox;

pub use agent_tools::AgentTools;
pub use toolbox::Toolbox;
