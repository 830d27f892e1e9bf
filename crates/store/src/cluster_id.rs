//! Cluster IDs: ULIDs, generated once by the node that bootstraps or restores a cluster.

use seqd_state::idgen::WallMs;
use ulid::Ulid;

use crate::stop::Stop;

/// Returns the time in a cluster ID in Unix milliseconds, or `None` if the ID is not a ULID.
pub fn time_of_id(id: &str) -> Option<u64> {
    Ulid::from_string(id).ok().map(|id| id.timestamp_ms())
}

pub fn cluster_id_at(wall: WallMs) -> Result<String, Stop> {
    let mut random = [0; 16];
    fill_random(&mut random)?;
    Ok(cluster_id_of(wall, random))
}

pub fn cluster_id_of(wall: WallMs, random: [u8; 16]) -> String {
    Ulid::from_parts(wall.0, u128::from_be_bytes(random)).to_string()
}

pub fn fill_random(bytes: &mut [u8]) -> Result<(), Stop> {
    getrandom::fill(bytes)
        .map_err(|e| Stop::invariant(format!("the operating system gives no random bytes: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_id_carries_the_time_at_which_it_was_drawn() {
        let at = 1_795_228_001_118;
        let id = cluster_id_at(WallMs(at)).unwrap();
        assert_eq!((id.len(), time_of_id(&id)), (26, Some(at)));
        assert_ne!(cluster_id_at(WallMs(at)).unwrap(), id);
        for none in ["", "01CLUSTER", "01M8149ECQPHRF4CV5EADZTYP!"] {
            assert_eq!(time_of_id(none), None, "{none}");
        }
        // An ID that was generated without the ULID library.
        assert_eq!(
            time_of_id("01M8149ECQPHRF4CV5EADZTYP7"),
            Some(1_795_334_388_119)
        );
    }
}
