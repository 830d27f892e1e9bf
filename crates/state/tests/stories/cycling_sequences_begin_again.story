found c1
> founded
# The first pass begins at start, each later pass at min. A grant never crosses the end of a pass.
create segment weekday start=3 max=7 cycle=yes
> created, revision 1, epoch 1
grant weekday 100
> values 3 to 7 by 1: indices 0 + 5, run from 0, token 4, epoch 1
grant weekday 100
> values 1 to 7 by 1: indices 5 + 7, run from 5, token 5, epoch 1
grant weekday 2
> values 1 to 2 by 1: indices 12 + 2, run from 12, token 6, epoch 1
# A strict response may cross it, in several ranges.
create strict turn start=3 max=7 cycle=yes
> created, revision 1, epoch 1
next turn*14
> values 3 to 7, 1 to 7, 1 to 2
next turn turn*2
> values 3 to 3
> values 4 to 5
create strict down by=-2 min=-6 max=-1 cycle=yes
> created, revision 1, epoch 1
next down*4
> values -1 to -5, -1 to -1
# With a pass of two values, a request needs many ranges.
create strict bit min=0 max=1 cycle=yes
> created, revision 1, epoch 1
next bit*128 bit*129 bit*5
> values 0 to 1, 0 to 1, ... (64 ranges), 0 to 1
> refused: 129 values were requested; 1 to 128 are allowed
> values 0 to 1, 0 to 1, 0 to 0
