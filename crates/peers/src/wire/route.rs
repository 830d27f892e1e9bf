//! The request type of a call, one byte in its first frame.

/// Gives each route its byte. A byte is never reused for another route.
macro_rules! routes {
    ($($route:ident = $byte:literal),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Route {
            $($route = $byte),+
        }

        impl Route {
            #[cfg(test)]
            pub const ALL: &[Self] = &[$(Self::$route),+];

            /// Returns the route of a received byte, or `None` for a route of a newer program.
            pub fn of(byte: u8) -> Option<Self> {
                match byte {
                    $($byte => Some(Self::$route),)+
                    _ => None,
                }
            }
        }
    };
}

routes! {
    Append = 1,
    Vote = 2,
    PreVote = 3,
    Transfer = 4,
    Snapshot = 5,
    Forward = 6,
    ReadIndex = 7,
    Members = 8,
    Ping = 9,
    Watch = 10,
    Hello = 11,
    Prepare = 12,
    Adopt = 13,
    SnapshotKept = 14,
    SnapshotRest = 15,
    Stopping = 16,
    Draw = 17,
    Promise = 18,
    Facts = 19,
    Start = 20,
}

impl Route {
    pub fn byte(self) -> u8 {
        self as u8
    }
}
