# All other commands are refused before the founding.
next order
> refused: the cluster is not founded yet
create strict order
> refused: the cluster is not founded yet
found c1
> founded
# The founder may have crashed before it received the response.
found c1
> founded
# A different founding is refused.
found c2
> refused: the cluster c1 is already founded
found c1 window=10000
> refused: the cluster c1 is already founded
