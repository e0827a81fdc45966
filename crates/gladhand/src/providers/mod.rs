//! Who answers calls inside this process.

pub mod toolbox;

pub use toolbox::Toolbox;
