//! leeway-simulations
