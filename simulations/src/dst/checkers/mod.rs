//! What must hold, judged from the world's own truth. `live` looks after every commit; `audit` reads the whole journal
//! at the end and reckons the money again. A violation panics with the name of the invariant.

pub mod audit;
pub mod live;
