found c1
> founded
create segment order
> created, revision 1, epoch 1
grant order 10
> values 1 to 10 by 1: indices 0 + 10, run from 0, token 4, epoch 1
join n4 nonce=1
> node 5
# The caller did not receive the response and retries.
join n4 nonce=1
> node 5
# A new request before the node has started: the first ID is removed.
join n4 nonce=2
> node 6
start 5
> refused: node 5 was removed from the cluster
start 6
> node 6 started, boot 1
join n4 nonce=3
> refused: the name n4 belongs to node 6
join n1
> refused: the name n1 belongs to node 1
remove 6
> node 6 removed
join n4 nonce=3
> node 7
# Neither a start nor a restart of the replica restores a removed ID or lowers the counter.
restart
start 6
> refused: node 6 was removed from the cluster
start 7
> node 7 started, boot 1
remove 7
> node 7 removed
restart
join n5
> node 8
