/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What goes wrong, for people: one line on stderr. Only those who decide call it, not what they use. */
#ifndef DLP_LOG_H
#define DLP_LOG_H

/* "dlprof-bpf: " before it, a line's end after it. */
void dlp_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * While the terminal shows a screen complaints are kept, a few thousand bytes of them, and printed
 * when it is left.
 */
void dlp_complaints_hold(void);
void dlp_complaints_release(void);

#endif /* DLP_LOG_H */
