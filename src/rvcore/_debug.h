/* Whether this build checks itself: setup.py sets RVCORE_DEBUG for debug and sanitizer builds. */
#ifndef RVCORE_DEBUG_H
#define RVCORE_DEBUG_H

#ifdef RVCORE_DEBUG
#define RV_DEBUG 1
#else
#define RV_DEBUG 0
#endif

#endif
