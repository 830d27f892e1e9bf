found c1
> founded
show-first default
> Spread
show-first js53
> Zero
restart
show-first default
> Spread
restore c2
> restored, node 4
show-first default
> Spread
