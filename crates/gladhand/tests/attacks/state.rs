//! State on disk: nothing readable is left behind after exit.
