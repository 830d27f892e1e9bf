//! The payment service of docs/IDEMPOTENCY.md against real nodes. It dies at every step: with the
//! token consumed first, with the payment first, and with a key.

use std::thread;

use seqd_tests::cluster::Cluster;
use seqd_tests::payments::{Charges, Died, Service, Step, token};

fn service<'a>(
    cluster: &'a Cluster,
    charges: &'a Charges,
    node: usize,
    dies: Option<Step>,
) -> Service<'a> {
    Service {
        cluster,
        node,
        charges,
        dies,
    }
}

#[test]
fn a_service_that_dies_at_every_step_pays_an_order_once() {
    let cluster = Cluster::started(3);
    let charges = Charges::default();
    for (at, step) in Step::ALL.into_iter().enumerate() {
        let order = format!("order-{at}");
        let dying = service(&cluster, &charges, at % 3, Some(step));
        assert_eq!(dying.pay(&order), Err(Died), "{step:?}");
        // The customer tries again on two machines at the same time, and once more later.
        let paid: Vec<String> = thread::scope(|scope| {
            let again = [1, 2].map(|node| {
                let (cluster, charges, order) = (&cluster, &charges, &order);
                scope.spawn(move || service(cluster, charges, node, None).pay(order).unwrap())
            });
            again.map(|it| it.join().unwrap()).into()
        });
        let later = service(&cluster, &charges, 0, None).pay(&order).unwrap();
        assert!(paid.iter().all(|it| *it == later), "{step:?}: {paid:?}");
        assert_eq!(charges.of(&order), 1, "{step:?}");
    }
}

#[test]
fn a_token_first_loses_a_payment_and_the_business_first_makes_it_twice() {
    let cluster = Cluster::started(1);
    let charges = Charges::default();
    let spent = token(&cluster);
    let dying = service(&cluster, &charges, 0, Some(Step::AfterBegin));
    assert_eq!(dying.pay_token_first("lost", &spent), Err(Died));
    let well = service(&cluster, &charges, 0, None);
    assert_eq!(well.pay_token_first("lost", &spent), Ok(false));
    assert_eq!(
        charges.of("lost"),
        0,
        "the token is gone, and nothing was paid"
    );

    let spent = token(&cluster);
    let dying = service(&cluster, &charges, 0, Some(Step::AfterCharge));
    assert_eq!(dying.pay_business_first("twice", &spent), Err(Died));
    assert_eq!(well.pay_business_first("twice", &spent), Ok(true));
    assert_eq!(
        charges.of("twice"),
        2,
        "the token is used once, and it was paid twice"
    );
}
