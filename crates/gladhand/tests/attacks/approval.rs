//! Approval: a model cannot reach a tool by a spelling that the policy did not decide on.
