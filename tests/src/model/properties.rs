//! The rules and the sights as properties. stateright takes functions whose only argument is a
//! state.

use stateright::Property;

use super::{Check, Sight, Violation, World};

macro_rules! always {
    ($($violation:ident)*) => {
        vec![$(Property::always(Violation::$violation.rule(), |_: &Check, world: &World| {
            world.ledger.broken != Some(Violation::$violation)
        }),)*]
    };
}

macro_rules! sometimes {
    ($($sight:ident)*) => {
        vec![$((Sight::$sight, Property::sometimes(Sight::$sight.words(), |check: &Check, world: &World| {
            Sight::$sight.is_in(check, world)
        })),)*]
    };
}

/// Every rule, and the sights of the check's scene.
pub(super) fn properties(check: &Check) -> Vec<Property<Check>> {
    let mut properties: Vec<Property<Check>> = always!(
        IdTwice OutsideWindow FenceFell WindowsOverlap DrawnTwice StartIsOver ValueTwice
    );
    let sights: Vec<(Sight, Property<Check>)> = sometimes!(
        MintedByTwoHolders ExtendAfterAnotherGrant HolderBesideAnother WokenAfterClose
        ClockBehindLastTick StartBesideAnother LeaseLost MintedAfterRestore HolderOfBeforeRestore
        MarkFell ReturnAfterAnotherGrant
    );
    let expected = sights.into_iter();
    let expected = expected.filter(|(sight, _)| check.scene.sights.contains(sight));
    properties.extend(expected.map(|(_, property)| property));
    properties
}
