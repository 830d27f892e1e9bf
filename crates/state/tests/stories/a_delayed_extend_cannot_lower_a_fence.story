found c1
> founded
take js53 owner=a fence=30000
> worker 0 of js53, lease 4, ticks from 0 to 30000
time 10000 10000
extend js53 0 lease=4 fence=40000
> extended to 40000
extend js53 0 lease=4 fence=30000
> extended to 40000
extend js53 0 lease=3 fence=41000
> refused: lease 3 does not hold worker 0 of layout js53; lease 4 of a does
extend js53 1 lease=4 fence=41000
> refused: lease 4 does not hold worker 1 of layout js53; it was released, has ended or was never taken
extend none 0 lease=4 fence=41000
> refused: there is no layout none
