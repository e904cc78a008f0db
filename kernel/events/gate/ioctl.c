// SPDX-License-Identifier: GPL-2.0
/*
 * Performance event gates: the ioctls of an event.
 */

#include <linux/file.h>
#include <linux/perf_event.h>
#include <linux/security.h>

#include "gate.h"
#include "windows.h"

static int perf_gate_link_fd(struct perf_event *event, int fd, unsigned int role)
{
	struct file *file __free(fput) = perf_event_get(fd);
	struct perf_event *other;
	int ret;

	if (IS_ERR(file))
		return PTR_ERR(file);

	other = file->private_data;
	ret = security_perf_event_write(other);

	return ret ?: perf_gate_link(event, other, role);
}

/**
 * perf_gate_ioctl() - Handle PERF_EVENT_IOC_SET_STARTER, _SET_STOPPER, _CLEAR_GATE,
 *		       _JOIN_GATE, _SET_WINDOWS and _GET_WINDOWS
 * @event:	Event of the ioctl's file: the trigger for the first two ioctls,
 *		the member for the others
 * @cmd:	One of these
 * @arg:	Argument of the ioctl
 *
 * Context: As perf_gate_link().
 * Return: 0, -ENOTTY for another @cmd, or an error that
 *	   Documentation/userspace-api/perf_gate.rst lists.
 */
long perf_gate_ioctl(struct perf_event *event, unsigned int cmd, unsigned long arg)
{
	unsigned int role = cmd == PERF_EVENT_IOC_SET_STARTER ? PERF_GATE_STARTER :
								PERF_GATE_STOPPER;
	struct perf_event_context *ctx;
	/* A file descriptor is an int, from a 32-bit caller as well. */
	int fd = arg;

	switch (cmd) {
	case PERF_EVENT_IOC_SET_STARTER:
	case PERF_EVENT_IOC_SET_STOPPER:
		if (fd != -1)
			return perf_gate_link_fd(event, fd, role);
		break;
	case PERF_EVENT_IOC_JOIN_GATE:
		return perf_gate_link_fd(event, fd, PERF_GATE_MEMBER);
	case PERF_EVENT_IOC_CLEAR_GATE:
		if (arg)
			return -EINVAL;
		break;
	case PERF_EVENT_IOC_SET_WINDOWS:
		return perf_gate_set_windows(event, (void __user *)arg);
	case PERF_EVENT_IOC_GET_WINDOWS:
		return perf_gate_get_windows(event, (void __user *)arg);
	default:
		return -ENOTTY;
	}

	ctx = perf_event_ctx_lock(event);
	if (cmd == PERF_EVENT_IOC_CLEAR_GATE)
		perf_gate_exit(event, true);
	else
		perf_gate_unlink_trigger(event, role);
	perf_event_ctx_unlock(event, ctx);

	return 0;
}
