#include "transport/arena.h"
