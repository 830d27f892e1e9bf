found c1
> founded
# No membership is applied yet.
raise 2 asked=3
> refused: the levels were collected from the members of entry 3 of term 1, but the members changed
membership 3
# Another membership was polled: a member that joined since may be older.
raise 2 asked=2
> refused: the levels were collected from the members of entry 2 of term 1, but the members changed at entry 3 of term 1
raise 2 asked=4
> refused: the levels were collected from the members of entry 4 of term 1, but the members changed at entry 3 of term 1
# No level can be skipped.
raise 3 asked=3
> refused: the cluster is at level 1, so it cannot be raised to 3
raise 1 asked=3
> refused: the cluster is at level 1, so it cannot be raised to 1
raise 2 asked=3
> level 2
# A repeated raise is refused.
raise 2 asked=3
> refused: the cluster is at level 2, so it cannot be raised to 2
membership 7
raise 3 asked=3
> refused: the levels were collected from the members of entry 3 of term 1, but the members changed at entry 7 of term 1
