//! Processes of A2E: variables that change what an allowed program does are refused.
