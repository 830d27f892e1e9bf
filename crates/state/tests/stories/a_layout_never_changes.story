found c1
> founded
time 50 50
layout short 39
> created
layout short 39
> there already
layout short 38
> refused: the layout short exists with another definition, and a layout never changes
take short owner=a fence=3000
> worker 0 of short, lease 4, ticks from 5 to 3000
# A preset does not change either.
layout default 39
> refused: the layout default exists with another definition, and a layout never changes
restart
layout short 39
> there already
layout short 38
> refused: the layout short exists with another definition, and a layout never changes
