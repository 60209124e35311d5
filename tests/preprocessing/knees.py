"""Drawn knees: a leg from top to bottom, brighter than its surroundings, with a dark joint space across."""

import cv2
import numpy as np


def leg(side=224, left=0.15, right=0.85):
    """Where the leg is: a mask."""
    mask = np.zeros((side, side), np.uint8)
    mask[:, max(0, int(left * side)) : max(0, int(right * side))] = 255
    return mask


def knee(side=224, left=0.15, right=0.85, bone=180, ground=30):
    image = np.where(leg(side, left, right) > 0, bone, ground).astype(np.float32)
    joint = slice(int(0.5 * side), int(0.56 * side))
    image[joint][leg(side, left, right)[joint] > 0] = (bone + ground) / 2
    texture = cv2.resize(np.random.default_rng(0).normal(0, 6, (28, 28)), (side, side))
    return np.clip(image + texture, 0, 255).astype(np.uint8)


def png(image):
    return cv2.imencode(".png", image)[1].tobytes()


def overlap(first, second):
    """Intersection over union."""
    return np.mean((first > 0) & (second > 0)) / np.mean((first > 0) | (second > 0))
